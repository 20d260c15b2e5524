// One f32 convolution by oneDNN.
// SPDX-License-Identifier: Apache-2.0
#include "DnnlConvolution.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opc::ops {

using cpu::DnnlExecution;
using dnnl::memory;

namespace {

/// The most executions, each with a scratchpad, that one convolution keeps.
constexpr int64_t kMaxShares = 64;

memory::desc biasOf(const ConvGeometry &g) { return {{g.filters}, memory::data_type::f32, memory::format_tag::x}; }

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

/// The library's direct, generated kernels: one thread computes an output, in an order that the shape decides.
bool isDirect(const std::string &implementation) {
  return implementation.rfind("jit", 0) == 0 || implementation.rfind("brg", 0) == 0 ||
         implementation.rfind("brdgmm", 0) == 0;
}

/// Whether the library computes a channels-last convolution enough faster in blocks of channels to pay for the reorders
/// around it. With AVX2 it walks along rows of pixels, eight channels at a time: in channels last these are a pixel
/// apart, a power of two of bytes as a rule, and fall on each other in the cache. 3x3 windows take 0.47 to 0.96 of the
/// time on a Zen 3, reorders included; 1x1 ones, which are products, more than before.
bool isBetterBlocked(const ConvGeometry &g) {
  static const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  if (isa != dnnl::cpu_isa::avx2 && isa != dnnl::cpu_isa::avx2_vnni) return false;
  constexpr int64_t kLeast = 32, kBlock = 8;
  const bool isWindow = std::any_of(g.kernel.begin(), g.kernel.end(), [](int64_t k) { return k > 1; });
  return isWindow && g.groups == 1 && g.channels >= kLeast && g.filters >= kLeast && g.channels % kBlock == 0 &&
         g.filters % kBlock == 0;
}

} // namespace

/// What the library settled on, for either direction.
struct DnnlConvolution::Described {
  memory::desc source, weight, target, scratchpad;
  std::string implementation;
  dnnl::primitive primitive;
  memory::desc scratchpad_desc() const { return scratchpad; } // NOLINT(readability-identifier-naming): as oneDNN

  static Described of(const ConvGeometry &g, ConvDirection direction, const memory::desc &in,
                      const memory::desc &weight, bool bias, const memory::desc &out, const ConvExtras &extras) {
    const DnnlWindow w(g);
    const auto algorithm = dnnl::algorithm::convolution_direct;
    if (direction == ConvDirection::kForward) {
      const memory::desc biasDesc = bias ? biasOf(g) : memory::desc();
      const dnnl::convolution_forward::primitive_desc pd({dnnl::prop_kind::forward_inference, algorithm, in, weight,
                                                          biasDesc, out, w.strides, w.dilates, w.padding, w.padding},
                                                         attributesOf(extras), cpu::dnnlEngine());
      return {pd.src_desc(),        pd.weights_desc(),  pd.dst_desc(),
              pd.scratchpad_desc(), pd.impl_info_str(), dnnl::convolution_forward(pd)};
    }
    const dnnl::convolution_backward_data::primitive_desc pd(
        {algorithm, in, weight, out, w.strides, w.dilates, w.padding, w.padding}, cpu::dnnlAttributes(),
        cpu::dnnlEngine(), dnnlHint(w, in, weight, out));
    return {pd.diff_dst_desc(),   pd.weights_desc(),  pd.diff_src_desc(),
            pd.scratchpad_desc(), pd.impl_info_str(), dnnl::convolution_backward_data(pd)};
  }
};

DnnlConvolution::DnnlConvolution(const ConvGeometry &g, ConvDirection direction, const float *source,
                                 const float *weight, const float *bias, float *target, bool constantWeight,
                                 int threads, const ConvExtras &extras)
    : geometry_(g), direction_(direction), extras_(extras) {
  const bool forward = direction == ConvDirection::kForward;
  const memory::desc in = dnnlIn(g, g.batch), out = dnnlOut(g, g.batch);
  const memory::desc userWeight = dnnlWeight(g, extras.weightLast.value_or(g.channelsLast));
  const memory::desc &userSource = forward ? in : out, &userTarget = forward ? out : in;
  cpu::setLibraryThreads(threads);
  // channels_last is a layout that the direct kernels take as it is; channels_first they would rather have blocked.
  const bool asItIs = g.channelsLast && !(forward && isBetterBlocked(g));
  Described pd = Described::of(g, direction, asItIs ? in : dnnlAny(in), dnnlAny(userWeight), bias,
                               asItIs ? out : dnnlAny(out), extras);
  if (g.channelsLast && !isDirect(pd.implementation))
    pd = Described::of(g, direction, dnnlAny(in), dnnlAny(userWeight), bias, dnnlAny(out), extras);
  direct_ = isDirect(pd.implementation);
  if (!direct_) {
    cpu::setLibraryThreads(1);
    pd = Described::of(g, direction, dnnlIn(g, 1), dnnlAny(userWeight), bias, dnnlOut(g, 1), extras);
  }
  packedWeight_ = constantWeight && pd.weight != userWeight;
  const void *usedWeight = packedWeight_ ? buffers_.copy(userWeight, weight, pd.weight, extras.packKey)
                                         : buffers_.in(userWeight, weight, pd.weight, &reorderWeight_);
  if (direct_ && pd.source != userSource) {
    sourceEdge_ = (pd.source.get_size() + 63) / 64 * 64;
    reorderSource_ = dnnlReorderOf(userSource, source, pd.source, nullptr);
  }
  if (direct_ && pd.target != userTarget) {
    targetEdge_ = pd.target.get_size();
    if (extras.accumulate) reorderAddend_ = dnnlReorderOf(userTarget, target, pd.target, nullptr);
    reorderTarget_ = dnnlReorderOf(pd.target, nullptr, userTarget, target);
  }
  if (sourceEdge_ + targetEdge_) edges_ = EdgeMemory::shared();
  source_ = source;
  target_ = target;
  weight_ = usedWeight;
  bias_ = bias;
  sourceLayout_ = pd.source;
  weightLayout_ = pd.weight;
  targetLayout_ = pd.target;
  sourceArg_ = forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_DST;
  targetArg_ = forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_SRC;
  samples_ = g.batch;
  sourceSample_ = (forward ? g.inShape() : g.outShape()).Count(1);
  targetSample_ = (forward ? g.outShape() : g.inShape()).Count(1);
  convolutions_ = executions(pd);
}

DnnlConvolution::Executions DnnlConvolution::executions(const Described &pd) const {
  Executions made;
  for (int64_t i = 0; i < (direct_ ? 1 : std::min(samples_, kMaxShares)); ++i) {
    DnnlExecution &e = made.emplace_back(pd, pd.primitive);
    e.bind(sourceArg_, pd.source, source_);
    e.bind(DNNL_ARG_WEIGHTS, pd.weight, weight_);
    if (bias_) e.bind(DNNL_ARG_BIAS, biasOf(geometry_), bias_);
    e.bind(targetArg_, pd.target, target_);
  }
  return made;
}

/// The tensors in the library's layout, of this run.
void DnnlConvolution::placeEdges(Executions &executions, char *memory) {
  if (reorderSource_) {
    source_ = reinterpret_cast<const float *>(memory);
    reorderSource_->rebind(DNNL_ARG_TO, memory);
    executions[0].rebind(sourceArg_, memory);
  }
  if (!reorderTarget_) return;
  char *const target = memory + sourceEdge_;
  target_ = reinterpret_cast<float *>(target);
  if (reorderAddend_) reorderAddend_->rebind(DNNL_ARG_TO, target);
  executions[0].rebind(targetArg_, target);
  reorderTarget_->rebind(DNNL_ARG_FROM, target);
}

void DnnlConvolution::run(DeviceCtx *ctx, Executions &executions, bool activates) {
  std::optional<EdgeMemory::Lease> lease;
  if (edges_) placeEdges(executions, lease.emplace(*edges_, sourceEdge_ + targetEdge_).data());
  if (reorderWeight_) reorderWeight_->execute();
  if (reorderSource_) reorderSource_->execute();
  if (reorderAddend_) reorderAddend_->execute();
  if (direct_) {
    executions[0].execute();
  } else {
    const int64_t shares = static_cast<int64_t>(executions.size());
    forEachShare(ctx, shares, [&](int64_t i) {
      DnnlExecution &e = executions[static_cast<size_t>(i)];
      for (int64_t n = samples_ * i / shares; n < samples_ * (i + 1) / shares; ++n) {
        e.rebind(sourceArg_, source_ + n * sourceSample_);
        e.rebind(targetArg_, target_ + n * targetSample_);
        e.execute();
      }
    });
  }
  if (activates) activate(ctx);
  if (reorderTarget_) reorderTarget_->execute();
}

void DnnlConvolution::run(DeviceCtx *ctx) {
  cpu::setLibraryThreads(ctx->threads());
  run(ctx, convolutions_, /*activates=*/false);
}

void DnnlConvolution::runKeepingNan(DeviceCtx *ctx) {
  if (extras_.activation == ConvExtras::kNone) return run(ctx);
  cpu::setLibraryThreads(direct_ ? ctx->threads() : 1);
  if (plain_.empty()) {
    ConvExtras extras = extras_;
    extras.activation = ConvExtras::kNone;
    plain_ = executions(
        Described::of(geometry_, direction_, sourceLayout_, weightLayout_, bias_ != nullptr, targetLayout_, extras));
  }
  cpu::setLibraryThreads(ctx->threads());
  run(ctx, plain_, /*activates=*/true);
}

/// As the library's maxima and minima: of two zeros the bound. A NaN stays.
void DnnlConvolution::activate(DeviceCtx *ctx) const {
  const bool clips = extras_.activation == ConvExtras::kClip;
  const float low = clips ? extras_.low : 0.0f;
  const float high = clips ? extras_.high : std::numeric_limits<float>::infinity();
  const int64_t count =
      direct_ ? static_cast<int64_t>(targetLayout_.get_size() / sizeof(float)) : samples_ * targetSample_;
  float *const values = target_;
  ctx->parallelFor(count, 16384, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float v = values[i], raised = v > low ? v : low;
      values[i] = std::isnan(v) ? v : raised < high ? raised : high;
    }
  });
}

} // namespace opc::ops
