// The gradient of an f32 convolution by its weight, by oneDNN, in shares of one thread each.
// SPDX-License-Identifier: Apache-2.0
#include "DnnlConvolution.h"

namespace opc::ops {

using cpu::DnnlExecution;
using dnnl::memory;

namespace {

/// The most shares, each with a weight of its own.
constexpr int64_t kMaxShares = 8;

dnnl::convolution_backward_weights::primitive_desc describe(const ConvGeometry &g, const memory::desc &x,
                                                            const memory::desc &weight, const memory::desc &dy) {
  const DnnlWindow w(g);
  return {{dnnl::algorithm::convolution_direct, x, weight, dy, w.strides, w.dilates, w.padding, w.padding},
          cpu::dnnlAttributes(),
          cpu::dnnlEngine(),
          dnnlHint(w, x, weight, dy)};
}

} // namespace

DnnlFilterGradient::DnnlFilterGradient(const ConvGeometry &g, const float *x, const float *dy, float *filterDiff) {
  cpu::setLibraryThreads(1);
  const memory::desc userWeight = dnnlWeight(g, g.channelsLast);
  const int64_t xSample = g.inShape().Count(1), dySample = g.outShape().Count(1);
  const int64_t shares = std::min(g.batch, kMaxShares);
  memory::desc weightDesc;
  for (int64_t i = 0; i < shares; ++i) {
    const int64_t first = g.batch * i / shares, samples = g.batch * (i + 1) / shares - first;
    const memory::desc userX = dnnlIn(g, samples), userDy = dnnlOut(g, samples);
    // The layout of the weight must be the same in all shares: they are added up as they lie.
    const auto pd = describe(g, dnnlAny(userX), i == 0 ? dnnlAny(userWeight) : weightDesc, dnnlAny(userDy));
    if (i == 0) {
      weightDesc = pd.diff_weights_desc();
      weightElements_ = static_cast<int64_t>(weightDesc.get_size() / sizeof(float));
    }
    Share &s = shares_.emplace_back();
    const void *usedX = buffers_.in(userX, x + first * xSample, pd.src_desc(), &s.reorderX);
    const void *usedDy = buffers_.in(userDy, dy + first * dySample, pd.diff_dst_desc(), &s.reorderDy);
    s.weight = i == 0 && weightDesc == userWeight ? filterDiff : static_cast<float *>(buffers_.add(weightDesc));
    s.gradient = DnnlExecution(pd, dnnl::convolution_backward_weights(pd));
    s.gradient.bind(DNNL_ARG_SRC, pd.src_desc(), usedX);
    s.gradient.bind(DNNL_ARG_DIFF_DST, pd.diff_dst_desc(), usedDy);
    s.gradient.bind(DNNL_ARG_DIFF_WEIGHTS, weightDesc, s.weight);
  }
  if (weightDesc != userWeight) reorderWeight_ = dnnlReorderOf(weightDesc, shares_[0].weight, userWeight, filterDiff);
}

void DnnlFilterGradient::run(DeviceCtx *ctx) {
  const int64_t shares = static_cast<int64_t>(shares_.size());
  forEachShare(ctx, shares, [&](int64_t i) {
    Share &s = shares_[static_cast<size_t>(i)];
    if (s.reorderX) s.reorderX->execute();
    if (s.reorderDy) s.reorderDy->execute();
    s.gradient.execute();
  });
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
