// Convolutions, their transposes and their gradients on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "convolution/ConvCuda.h"
#include "convolution/ConvOp.h"
#include "convolution/ConvUnits.h"
#include "reduce/ReduceArguments.h"

namespace opc::ops {

ConvArguments convArguments(const ConvGeometry &g) {
  ConvArguments a{};
  a.batch = g.batch;
  a.groups = g.groups;
  a.own = g.channels / g.groups;
  a.perGroup = g.filters / g.groups;
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    a.in[i] = g.in[at], a.size[i] = g.out[at], a.kernel[i] = g.kernel[at];
    a.stride[i] = g.stride[at], a.dilation[i] = g.dilation[at], a.padding[i] = g.padding[at];
  }
  const auto copy = [](const std::array<int64_t, 5> &from, int64_t *to) { std::copy(from.begin(), from.end(), to); };
  copy(g.strides(g.channels, g.in), a.xs);
  copy(g.strides(g.filters, g.out), a.ys);
  copy(g.strides(a.own, g.kernel), a.ws);
  a.sliceCount = 1;
  a.sliceLength = g.batch * volume(g.out);
  return a;
}

namespace {

using cuda::CudaLaunch;
using cuda::Dim3;

const void *givenOf(KernelBindContext *ctx, const char *arg) {
  return ctx->Has(arg) ? ctx->In(arg).raw_dptr() : nullptr;
}
/// "conv_forward_tiles_first_f32".
std::string kernelName(const char *product, bool tiles, const char *otherwise, const ConvGeometry &g, DataType type) {
  return std::string("conv_") + product + "_" + (tiles ? "tiles" : otherwise) +
         (g.channelsLast ? "_last_" : "_first_") + dataTypeName(type);
}

/// The task of a convolution or of its adjoint: rows x columns results for each group.
std::unique_ptr<BoundKernel> bindProduct(KernelBindContext *ctx, const ConvGeometry &g, ConvArguments a,
                                         ConvDirection direction, DataType type) {
  const bool forward = direction == ConvDirection::kForward;
  const int64_t rows = g.batch * volume(forward ? g.out : g.in), columns = forward ? a.perGroup : a.own;
  const bool tiles = columns >= kFewColumns;
  const int64_t count = rows * columns * g.groups;
  if (tiles)
    if (const auto units =
            ConvUnits::of(ctx->device_ctx(), g, a, forward ? ConvProduct::kForward : ConvProduct::kData, type))
      return bindTask([=](DeviceCtx *dev) {
        if (count > 0) units->run(dev);
      });
  const auto kernel =
      CudaLaunch::of(ctx->device_ctx()).function(kernelName(forward ? "forward" : "data", tiles, "elements", g, type));
  const Dim3 grid = tiles ? gridOfTiles(rows, columns, g.groups) : cuda::blocksFor(count);
  return bindTask([=](DeviceCtx *dev) {
    if (count > 0) CudaLaunch::of(dev).run(kernel, grid, {cuda::kBlock, 1, 1}, 0, a);
  });
}

template <class T> class ConvCuda final : public BindingKernel {
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const TensorDesc &in = ctx->Desc("in");
    const ConvGeometry g =
        valueOf(convGeometry(in, ctx->Desc("weight"), ctx->user_op_conf(), spatialDims(in), Extent::kPiece));
    ConvArguments a = convArguments(g);
    a.x = ctx->In("in").raw_dptr();
    a.weight = ctx->In("weight").raw_dptr();
    a.bias = givenOf(ctx, "bias");
    a.add = givenOf(ctx, "_add_to_output");
    a.out = ctx->Out("out").mut_raw_dptr();
    return bindProduct(ctx, g, a, ConvDirection::kForward, GetDataType<T>::value);
  }
};

template <class T> class DeconvCuda final : public BindingKernel {
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const TensorDesc &in = ctx->Desc("in");
    const ConvGeometry g =
        valueOf(transposedGeometry(in, ctx->Desc("weight"), ctx->user_op_conf(), spatialDims(in), Extent::kPiece));
    ConvArguments a = convArguments(g);
    a.y = ctx->In("in").raw_dptr();
    a.weight = ctx->In("weight").raw_dptr();
    a.out = ctx->Out("out").mut_raw_dptr();
    return bindProduct(ctx, g, a, ConvDirection::kData, GetDataType<T>::value);
  }
};

Maybe<ConvGeometry> gradGeometry(const OpContext *ctx, const TensorDesc &x, const TensorDesc &weight) {
  return convGeometry(x, weight, ctx->user_op_conf(), ctx->Attr<int32_t>("num_spatial_dims"), Extent::kPiece);
}

template <class T> class ConvDataGradCuda final : public BindingKernel {
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const ConvGeometry g = valueOf(gradGeometry(ctx, ctx->Desc("x_like"), ctx->Desc("filter")));
    ConvArguments a = convArguments(g);
    a.y = ctx->In("dy").raw_dptr();
    a.weight = ctx->In("filter").raw_dptr();
    a.add = givenOf(ctx, "_add_to_output");
    a.out = ctx->Out("dx").mut_raw_dptr();
    return bindProduct(ctx, g, a, ConvDirection::kData, GetDataType<T>::value);
  }
};

/// How the sums of a gradient by the weight are cut, so that there is work for a GPU. By the sizes alone.
struct FilterSlices {
  explicit FilterSlices(const ConvGeometry &g)
      : rows(g.filters / g.groups), columns(g.channels / g.groups * volume(g.kernel)),
        results(rows * columns * g.groups), positions(g.batch * volume(g.out)),
        tiles(rows >= kFewColumns && rows * columns >= 1024) {
    if (!tiles) return;
    const int64_t blocks = tilesOf(rows) * tilesOf(columns) * g.groups;
    const int64_t wanted = std::clamp<int64_t>(256 / blocks, 1, std::max<int64_t>(1, positions / 256));
    length = (positions + wanted - 1) / wanted;
    if (length > 0) count = (positions + length - 1) / length;
  }
  int64_t rows, columns, results, positions;
  bool tiles;
  int64_t count = 1, length = positions;
};
size_t filterBytes(InferContext *ctx) {
  const FilterSlices s(valueOf(gradGeometry(ctx, ctx->In("x"), ctx->Out("filter_diff"))));
  const size_t size = ctx->In("x").data_type() == kDouble ? sizeof(double) : sizeof(float);
  return s.count > 1 ? static_cast<size_t>(s.count * s.results) * size : 0;
}

template <class T> class ConvFilterGradCuda final : public BindingKernel {
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const ConvGeometry g = valueOf(gradGeometry(ctx, ctx->Desc("x"), ctx->Desc("filter_diff")));
    const FilterSlices s(g);
    ConvArguments a = convArguments(g);
    a.y = ctx->In("dy").raw_dptr();
    a.x = ctx->In("x").raw_dptr();
    a.out = ctx->Out("filter_diff").mut_raw_dptr();
    a.sliceCount = s.count;
    a.sliceLength = s.length;
    a.slices = s.count > 1 ? ctx->Tmp<char>() : nullptr;
    CudaLaunch &device = CudaLaunch::of(ctx->device_ctx());
    std::optional<ConvUnits> units;
    if (s.tiles) units = ConvUnits::of(ctx->device_ctx(), g, a, ConvProduct::kFilter, GetDataType<T>::value);
    const auto kernel = device.function(kernelName("filter", s.tiles, "sums", g, GetDataType<T>::value));
    const auto add = device.function(std::string("conv_add_slices_") + dataTypeName(GetDataType<T>::value));
    const Dim3 grid =
        s.tiles ? gridOfTiles(s.rows, s.columns, g.groups * s.count) : Dim3{limited(s.results, 65535), 1, 1};
    return bindTask([=](DeviceCtx *dev) {
      if (s.results == 0) return;
      if (units)
        units->run(dev);
      else
        CudaLaunch::of(dev).run(kernel, grid, {cuda::kBlock, 1, 1}, 0, a);
      if (a.slices)
        CudaLaunch::of(dev).run(add, cuda::blocksFor(s.results), {cuda::kBlock, 1, 1}, 0,
                                static_cast<const void *>(a.slices), a.out, s.results, s.count);
    });
  }
};

/// The sums of reduce_sum over everything but the channels.
template <class T> class ConvBiasGradCuda final : public BindingKernel {
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Shape &shape = ctx->In("dy").shape();
    const bool last = ctx->Attr<std::string>("data_format") == "channels_last";
    const int64_t rank = shape.NumAxes(), outer = last ? shape.Count(0, rank - 1) : shape.At(0),
                  inner = last ? 1 : shape.Count(2);
    ReduceArguments a{};
    a.in = ctx->In("dy").raw_dptr();
    a.out = ctx->Out("bias_diff").mut_raw_dptr();
    a.outputs = shape.At(last ? rank - 1 : 1);
    a.count = outer * inner;
    a.keptRank = 1;
    a.keptDims[0] = std::max<int64_t>(1, a.outputs);
    a.keptStrides[0] = inner;
    a.reducedRank = 2;
    a.reducedDims[0] = std::max<int64_t>(1, outer);
    a.reducedStrides[0] = a.outputs * inner;
    a.reducedDims[1] = std::max<int64_t>(1, inner);
    a.reducedStrides[1] = 1;
    const bool rows = inner > 1 || a.outputs < 64;
    const auto kernel =
        CudaLaunch::of(ctx->device_ctx())
            .function(std::string("reduce_sum_") + (rows ? "rows_" : "columns_") + dataTypeName(GetDataType<T>::value));
    const Dim3 grid = rows ? Dim3{limited(a.outputs, 65535), 1, 1} : cuda::blocksFor(a.outputs);
    return bindTask([=](DeviceCtx *dev) {
      if (a.outputs > 0) CudaLaunch::of(dev).run(kernel, grid, {cuda::kBlock, 1, 1}, 0, a);
    });
  }
};

const KernelOptions kOnGpu = KernelOptions().Device(DeviceType::kGPU);

REGISTER_KERNELS("conv1d").Kernel<ConvCuda, types::Floating>("in", kOnGpu);
REGISTER_KERNELS("conv2d").Kernel<ConvCuda, types::Floating>("in", kOnGpu);
REGISTER_KERNELS("conv3d").Kernel<ConvCuda, types::Floating>("in", kOnGpu);
REGISTER_KERNELS("deconv1d").Kernel<DeconvCuda, types::Floating>("in", kOnGpu);
REGISTER_KERNELS("deconv2d").Kernel<DeconvCuda, types::Floating>("in", kOnGpu);
REGISTER_KERNELS("deconv3d").Kernel<DeconvCuda, types::Floating>("in", kOnGpu);
REGISTER_KERNELS("conv_data_grad").Kernel<ConvDataGradCuda, types::Floating>("dy", kOnGpu);
REGISTER_KERNELS("conv_filter_grad")
    .Kernel<ConvFilterGradCuda, types::Floating>("dy", KernelOptions(kOnGpu).TmpSize(filterBytes));
REGISTER_KERNELS("conv_bias_grad").Kernel<ConvBiasGradCuda, types::Floating>("dy", kOnGpu);

} // namespace
} // namespace opc::ops
