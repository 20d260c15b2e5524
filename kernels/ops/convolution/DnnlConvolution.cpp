// One f32 convolution by oneDNN.
// SPDX-License-Identifier: Apache-2.0
#include "DnnlConvolution.h"
#include "DnnlLayouts.h"
#include "Parallel.h"

#include <algorithm>

namespace opc::ops {

using cpu::DnnlExecution;
using dnnl::memory;

namespace {

/// The most executions, each with a scratchpad, that one convolution keeps.
constexpr int64_t kMaxShares = 64;
const auto kF32 = memory::data_type::f32;

memory::desc weightOf(ConvGeometry g, bool last) {
  g.channelsLast = last;
  return dnnlWeight(g);
}

/// What the library settled on, for either direction.
struct Described {
  memory::desc source, weight, target, scratchpad;
  std::string implementation;
  dnnl::primitive primitive;
  memory::desc scratchpad_desc() const { return scratchpad; }
};

dnnl::primitive_attr attributesOf(const ConvExtras &extras) {
  dnnl::primitive_attr attributes = cpu::dnnlAttributes();
  dnnl::post_ops ops;
  if (extras.accumulate) ops.append_sum(1.0f);
  if (extras.activation == ConvExtras::kRelu) ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
  if (extras.activation == ConvExtras::kClip)
    ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_clip, extras.low, extras.high);
  attributes.set_post_ops(ops);
  return attributes;
}

Described describe(const ConvGeometry &g, ConvDirection direction, const memory::desc &in, const memory::desc &weight,
                   bool bias, const memory::desc &out, const ConvExtras &extras) {
  const DnnlWindow window(g);
  const memory::dims &strides = window.strides, &dilates = window.dilates, &padding = window.padding;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  if (direction == ConvDirection::kForward) {
    const auto kind = dnnl::prop_kind::forward_inference;
    const memory::desc biasDesc({g.filters}, kF32, memory::format_tag::x);
    const dnnl::convolution_forward::desc d =
        bias ? dnnl::convolution_forward::desc(kind, algorithm, in, weight, biasDesc, out, strides, dilates, padding,
                                               padding)
             : dnnl::convolution_forward::desc(kind, algorithm, in, weight, out, strides, dilates, padding, padding);
    const dnnl::convolution_forward::primitive_desc pd(d, attributesOf(extras), cpu::dnnlEngine());
    return {pd.src_desc(),        pd.weights_desc(),  pd.dst_desc(),
            pd.scratchpad_desc(), pd.impl_info_str(), dnnl::convolution_forward(pd)};
  }
  // The library asks for the forward convolution as a hint; its layouts do not bind the backward one.
  const dnnl::convolution_forward::primitive_desc hint(
      {dnnl::prop_kind::forward_training, algorithm, in, weight, out, strides, dilates, padding, padding},
      cpu::dnnlAttributes(), cpu::dnnlEngine());
  const dnnl::convolution_backward_data::primitive_desc pd(
      {algorithm, in, weight, out, strides, dilates, padding, padding}, cpu::dnnlAttributes(), cpu::dnnlEngine(), hint);
  return {pd.diff_dst_desc(),   pd.weights_desc(),  pd.diff_src_desc(),
          pd.scratchpad_desc(), pd.impl_info_str(), dnnl::convolution_backward_data(pd)};
}

/// The library's direct, generated kernels: one thread computes an output, in an order that the shape decides.
bool isDirect(const std::string &implementation) {
  return implementation.rfind("jit", 0) == 0 || implementation.rfind("brg", 0) == 0 ||
         implementation.rfind("brdgmm", 0) == 0;
}

} // namespace

DnnlConvolution::DnnlConvolution(const ConvGeometry &g, ConvDirection direction, const float *source,
                                 const float *weight, const float *bias, float *target, bool constantWeight,
                                 int threads, const ConvExtras &extras) {
  const bool forward = direction == ConvDirection::kForward;
  const memory::desc in = dnnlPlain(g, g.batch, g.channels, g.in), out = dnnlPlain(g, g.batch, g.filters, g.out);
  const memory::desc userWeight = weightOf(g, extras.weightLast.value_or(g.channelsLast));
  const memory::desc &userSource = forward ? in : out, &userTarget = forward ? out : in;
  cpu::setLibraryThreads(threads);
  // channels_last is a layout that the direct kernels take as it is; channels_first they would rather have blocked.
  Described pd = describe(g, direction, g.channelsLast ? in : dnnlAny(in), dnnlAny(userWeight), bias,
                          g.channelsLast ? out : dnnlAny(out), extras);
  if (g.channelsLast && !isDirect(pd.implementation))
    pd = describe(g, direction, dnnlAny(in), dnnlAny(userWeight), bias, dnnlAny(out), extras);
  direct_ = isDirect(pd.implementation);
  if (!direct_) {
    cpu::setLibraryThreads(1);
    pd = describe(g, direction, dnnlPlain(g, 1, g.channels, g.in), dnnlAny(userWeight), bias,
                  dnnlPlain(g, 1, g.filters, g.out), extras);
  }
  implementation_ = pd.implementation;

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
  const void *usedWeight = weight, *usedSource = source;
  void *usedTarget = target;
  if (pd.weight != userWeight) {
    if (constantWeight) {
      buffers_.push_back(cpu::dnnlReordered(userWeight, weight, pd.weight));
      usedWeight = buffers_.back().get();
      packedWeight_ = true;
    } else {
      char *b = buffer(pd.weight);
      reorderWeight_ = reorder(userWeight, weight, pd.weight, b);
      usedWeight = b;
    }
  }
  if (direct_ && pd.source != userSource) {
    char *b = buffer(pd.source);
    reorderSource_ = reorder(userSource, source, pd.source, b);
    usedSource = b;
  }
  if (direct_ && pd.target != userTarget) {
    char *b = buffer(pd.target);
    if (extras.accumulate) reorderAddend_ = reorder(userTarget, target, pd.target, b);
    reorderTarget_ = reorder(pd.target, b, userTarget, target);
    usedTarget = b;
  }
  source_ = static_cast<const float *>(usedSource);
  target_ = static_cast<float *>(usedTarget);
  sourceArg_ = forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_DST;
  targetArg_ = forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_SRC;
  samples_ = g.batch;
  const int64_t inSample = g.channels * g.in[0] * g.in[1] * g.in[2],
                outSample = g.filters * g.out[0] * g.out[1] * g.out[2];
  sourceSample_ = forward ? inSample : outSample;
  targetSample_ = forward ? outSample : inSample;
  for (int64_t i = 0; i < (direct_ ? 1 : std::min(g.batch, kMaxShares)); ++i) {
    DnnlExecution &e = convolutions_.emplace_back(pd, pd.primitive);
    e.bind(sourceArg_, pd.source, usedSource);
    e.bind(DNNL_ARG_WEIGHTS, pd.weight, usedWeight);
    if (bias) e.bind(DNNL_ARG_BIAS, {{g.filters}, kF32, memory::format_tag::x}, bias);
    e.bind(targetArg_, pd.target, usedTarget);
  }
}

void DnnlConvolution::run(DeviceCtx *ctx) {
  cpu::setLibraryThreads(ctx->threads());
  if (reorderWeight_) reorderWeight_->execute();
  if (reorderSource_) reorderSource_->execute();
  if (reorderAddend_) reorderAddend_->execute();
  if (direct_) {
    convolutions_[0].execute();
  } else {
    cpu::FirstException failure;
    const int64_t shares = static_cast<int64_t>(convolutions_.size());
    ctx->parallelFor(shares, 1, [&](int64_t begin, int64_t end) {
      cpu::setLibraryThreads(1);
      for (int64_t i = begin; i < end; ++i)
        failure.guard([&] {
          DnnlExecution &e = convolutions_[static_cast<size_t>(i)];
          for (int64_t n = samples_ * i / shares; n < samples_ * (i + 1) / shares; ++n) {
            e.rebind(sourceArg_, source_ + n * sourceSample_);
            e.rebind(targetArg_, target_ + n * targetSample_);
            e.execute();
          }
        });
    });
    cpu::setLibraryThreads(ctx->threads());
    failure.rethrow();
  }
  if (reorderTarget_) reorderTarget_->execute();
}

} // namespace opc::ops
