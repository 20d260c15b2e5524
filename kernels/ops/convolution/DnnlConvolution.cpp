// One f32 convolution by oneDNN.
#include "DnnlConvolution.h"
#include "Parallel.h"

#include <algorithm>

namespace opc::ops {

using cpu::DnnlExecution;
using dnnl::memory;

namespace {

/// The most executions, each with a scratchpad, that one convolution keeps.
constexpr int64_t kMaxShares = 64;
const auto kF32 = memory::data_type::f32;

/// [first, second, spatial...] with the strides of the geometry's layout; the unused spatial dimensions are dropped.
memory::desc plain(const ConvGeometry &g, int64_t batch, int64_t channels, const std::array<int64_t, 3> &spatial) {
  const auto s = g.strides(channels, spatial);
  memory::dims dims{batch, channels}, strides{s[0], s[1]};
  for (size_t i = 3 - static_cast<size_t>(g.dims); i < 3; ++i) {
    dims.push_back(spatial[i]);
    strides.push_back(s[2 + i]);
  }
  return {dims, kF32, strides};
}

memory::desc plainWeight(const ConvGeometry &g) {
  const memory::desc flat = plain(g, g.filters, g.channels / g.groups, g.kernel);
  if (g.groups == 1) return flat;
  memory::dims dims = flat.dims(), strides(flat.data.format_desc.blocking.strides, flat.data.format_desc.blocking.strides + flat.data.ndims);
  dims[0] = g.filters / g.groups;
  dims.insert(dims.begin(), g.groups);
  strides.insert(strides.begin(), strides[0] * (g.filters / g.groups));
  return {dims, kF32, strides};
}

memory::desc anyOf(const memory::desc &d) { return {d.dims(), kF32, memory::format_tag::any}; }

dnnl::convolution_forward::primitive_desc describe(const ConvGeometry &g, const memory::desc &src, const memory::desc &weight, bool bias,
                                                   const memory::desc &dst) {
  memory::dims strides, dilates, padding;
  for (size_t i = 3 - static_cast<size_t>(g.dims); i < 3; ++i) {
    strides.push_back(g.stride[i]);
    dilates.push_back(g.dilation[i] - 1);
    padding.push_back(g.padding[i]);
  }
  const auto kind = dnnl::prop_kind::forward_inference;
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::desc d =
      bias ? dnnl::convolution_forward::desc(kind, algorithm, src, weight, {{g.filters}, kF32, memory::format_tag::x}, dst, strides, dilates, padding, padding)
           : dnnl::convolution_forward::desc(kind, algorithm, src, weight, dst, strides, dilates, padding, padding);
  return {d, cpu::dnnlAttributes(), cpu::dnnlEngine()};
}

/// The library's direct, generated kernels: one thread computes an output, in an order that the shape decides.
bool isDirect(const std::string &implementation) {
  return implementation.rfind("jit", 0) == 0 || implementation.rfind("brg", 0) == 0;
}

} // namespace

DnnlConvolution::DnnlConvolution(const ConvGeometry &g, const float *in, const float *weight, const float *bias, float *out,
                                 bool constantWeight, int threads) {
  memory::desc src = plain(g, g.batch, g.channels, g.in), dst = plain(g, g.batch, g.filters, g.out);
  const memory::desc userWeight = plainWeight(g);
  cpu::setLibraryThreads(threads);
  // channels_last is a layout that the direct kernels take as it is; channels_first they would rather have blocked.
  auto pd = describe(g, g.channelsLast ? src : anyOf(src), anyOf(userWeight), bias, g.channelsLast ? dst : anyOf(dst));
  if (g.channelsLast && !isDirect(pd.impl_info_str())) pd = describe(g, anyOf(src), anyOf(userWeight), bias, anyOf(dst));
  const bool direct = isDirect(pd.impl_info_str());
  if (!direct) {
    cpu::setLibraryThreads(1);
    pd = describe(g, plain(g, 1, g.channels, g.in), anyOf(userWeight), bias, plain(g, 1, g.filters, g.out));
  }
  implementation_ = pd.impl_info_str();

  const auto reorder = [](const memory::desc &from, const void *source, const memory::desc &to, void *target) {
    dnnl::reorder::primitive_desc rd(cpu::dnnlEngine(), from, cpu::dnnlEngine(), to, cpu::dnnlAttributes());
    DnnlExecution e(rd, dnnl::reorder(rd));
    e.bind(DNNL_ARG_FROM, from, source);
    e.bind(DNNL_ARG_TO, to, target);
    return e;
  };
  const auto buffer = [&](const memory::desc &d) {
    buffers_.emplace_back(static_cast<int64_t>(d.get_size()));
    return buffers_.back().get();
  };
  const void *usedWeight = weight, *usedIn = in;
  void *usedOut = out;
  if (pd.weights_desc() != userWeight) {
    if (constantWeight) {
      buffers_.push_back(cpu::dnnlReordered(userWeight, weight, pd.weights_desc()));
      usedWeight = buffers_.back().get();
    } else {
      char *b = buffer(pd.weights_desc());
      reorderWeight_ = reorder(userWeight, weight, pd.weights_desc(), b);
      usedWeight = b;
    }
  }
  if (direct && pd.src_desc() != src) {
    char *b = buffer(pd.src_desc());
    reorderIn_ = reorder(src, in, pd.src_desc(), b);
    usedIn = b;
  }
  if (direct && pd.dst_desc() != dst) {
    char *b = buffer(pd.dst_desc());
    reorderOut_ = reorder(pd.dst_desc(), b, dst, out);
    usedOut = b;
  }
  direct_ = direct;
  in_ = static_cast<const float *>(usedIn);
  out_ = static_cast<float *>(usedOut);
  samples_ = g.batch;
  inSample_ = g.channels * g.in[0] * g.in[1] * g.in[2];
  outSample_ = g.filters * g.out[0] * g.out[1] * g.out[2];
  const dnnl::convolution_forward primitive(pd);
  for (int64_t i = 0; i < (direct ? 1 : std::min(g.batch, kMaxShares)); ++i) {
    DnnlExecution &e = convolutions_.emplace_back(pd, primitive);
    e.bind(DNNL_ARG_SRC, pd.src_desc(), usedIn);
    e.bind(DNNL_ARG_WEIGHTS, pd.weights_desc(), usedWeight);
    if (bias) e.bind(DNNL_ARG_BIAS, pd.bias_desc(), bias);
    e.bind(DNNL_ARG_DST, pd.dst_desc(), usedOut);
  }
}

void DnnlConvolution::run(DeviceCtx *ctx) {
  cpu::setLibraryThreads(ctx->threads());
  if (reorderWeight_) reorderWeight_->execute();
  if (reorderIn_) reorderIn_->execute();
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
            e.rebind(DNNL_ARG_SRC, in_ + n * inSample_);
            e.rebind(DNNL_ARG_DST, out_ + n * outSample_);
            e.execute();
          }
        });
    });
    cpu::setLibraryThreads(ctx->threads());
    failure.rethrow();
  }
  if (reorderOut_) reorderOut_->execute();
}

} // namespace opc::ops
