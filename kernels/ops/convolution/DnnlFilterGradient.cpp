// The gradient of an f32 convolution by its weight, by oneDNN, in shares of one thread each.
// SPDX-License-Identifier: Apache-2.0
#include "DnnlFilterGradient.h"
#include "DnnlLayouts.h"
#include "Parallel.h"

#include <algorithm>

namespace opc::ops {

using cpu::DnnlExecution;
using dnnl::memory;

namespace {

/// The most shares, each with a weight of its own.
constexpr int64_t kMaxShares = 8;

dnnl::convolution_backward_weights::primitive_desc describe(const ConvGeometry &g, const memory::desc &x,
                                                            const memory::desc &weight, const memory::desc &dy) {
  const DnnlWindow w(g);
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc hint(
      {dnnl::prop_kind::forward_training, algorithm, x, weight, dy, w.strides, w.dilates, w.padding, w.padding},
      cpu::dnnlAttributes(), cpu::dnnlEngine());
  return dnnl::convolution_backward_weights::primitive_desc(
      {algorithm, x, weight, dy, w.strides, w.dilates, w.padding, w.padding}, cpu::dnnlAttributes(), cpu::dnnlEngine(),
      hint);
}

} // namespace

DnnlFilterGradient::DnnlFilterGradient(const ConvGeometry &g, const float *x, const float *dy, float *filterDiff) {
  cpu::setLibraryThreads(1);
  const int64_t xSample = g.channels * g.in[0] * g.in[1] * g.in[2],
                dySample = g.filters * g.out[0] * g.out[1] * g.out[2];
  const memory::desc userWeight = dnnlWeight(g);
  const int64_t shares = std::min(g.batch, kMaxShares);
  const auto reorder = [](const memory::desc &from, const void *data, const memory::desc &to, void *into) {
    dnnl::reorder::primitive_desc rd(cpu::dnnlEngine(), from, cpu::dnnlEngine(), to, cpu::dnnlAttributes());
    DnnlExecution e(rd, dnnl::reorder(rd));
    e.bind(DNNL_ARG_FROM, from, data);
    e.bind(DNNL_ARG_TO, to, into);
    return e;
  };
  const auto buffer = [&](const memory::desc &d) {
    buffers_.emplace_back(static_cast<int64_t>(d.get_size()));
    return buffers_.back().get();
  };
  memory::desc weightDesc;
  for (int64_t i = 0; i < shares; ++i) {
    const int64_t first = g.batch * i / shares, samples = g.batch * (i + 1) / shares - first;
    const memory::desc userX = dnnlPlain(g, samples, g.channels, g.in),
                       userDy = dnnlPlain(g, samples, g.filters, g.out);
    // The layout of the weight must be the same in all shares: they are added up as they lie.
    const auto pd = describe(g, dnnlAny(userX), i == 0 ? dnnlAny(userWeight) : weightDesc, dnnlAny(userDy));
    if (i == 0) {
      weightDesc = pd.diff_weights_desc();
      implementation_ = pd.impl_info_str();
      weightElements_ = static_cast<int64_t>(weightDesc.get_size() / sizeof(float));
    }
    Share &s = shares_.emplace_back();
    const void *usedX = x + first * xSample, *usedDy = dy + first * dySample;
    if (pd.src_desc() != userX) {
      char *b = buffer(pd.src_desc());
      s.reorderX = reorder(userX, usedX, pd.src_desc(), b);
      usedX = b;
    }
    if (pd.diff_dst_desc() != userDy) {
      char *b = buffer(pd.diff_dst_desc());
      s.reorderDy = reorder(userDy, usedDy, pd.diff_dst_desc(), b);
      usedDy = b;
    }
    s.weight = i == 0 && weightDesc == userWeight ? filterDiff : reinterpret_cast<float *>(buffer(weightDesc));
    s.gradient = DnnlExecution(pd, dnnl::convolution_backward_weights(pd));
    s.gradient.bind(DNNL_ARG_SRC, pd.src_desc(), usedX);
    s.gradient.bind(DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), usedDy);
    s.gradient.bind(DNNL_ARG_DIFF_WEIGHTS, weightDesc, s.weight);
  }
  if (weightDesc != userWeight) reorderWeight_ = reorder(weightDesc, shares_[0].weight, userWeight, filterDiff);
}

void DnnlFilterGradient::run(DeviceCtx *ctx) {
  cpu::FirstException failure;
  const int64_t shares = static_cast<int64_t>(shares_.size());
  ctx->parallelFor(shares, 1, [&](int64_t begin, int64_t end) {
    cpu::setLibraryThreads(1);
    for (int64_t i = begin; i < end; ++i)
      failure.guard([&] {
        Share &s = shares_[static_cast<size_t>(i)];
        if (s.reorderX) s.reorderX->execute();
        if (s.reorderDy) s.reorderDy->execute();
        s.gradient.execute();
      });
  });
  cpu::setLibraryThreads(ctx->threads());
  failure.rethrow();
  float *sum = shares_[0].weight;
  ctx->parallelFor(weightElements_, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = 1; i < shares; ++i) {
      const float *part = shares_[static_cast<size_t>(i)].weight;
      for (int64_t k = begin; k < end; ++k) sum[k] += part[k];
    }
  });
  if (reorderWeight_) reorderWeight_->execute();
}

} // namespace opc::ops
