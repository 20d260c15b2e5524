// CPU kernels of conv_data_grad, conv_filter_grad and conv_bias_grad: oneDNN for f32 and the half types, plain loops
// for f64.
// SPDX-License-Identifier: Apache-2.0
#include "DirectConvolution.h"
#include "DnnlConvolution.h"
#include "DnnlFilterGradient.h"
#include "SimdExp.h"
#include "StagedTensors.h"
#include "support/RegisterFloating.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::TensorDesc;

ConvGeometry checked(const Maybe<ConvGeometry> &geometry) {
  if (!geometry.IsOk()) throw ContractError(geometry.status().message());
  return geometry.value();
}

template <class T> class ConvDataGradKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const TensorDesc &like = *ctx->TensorDesc4ArgNameAndIndex("x_like", 0);
    const ConvGeometry g = checked(convGeometry(like, *ctx->TensorDesc4ArgNameAndIndex("filter", 0),
                                                ctx->user_op_conf(), ctx->Attr<int32_t>("num_spatial_dims"), true));
    StagedTensors<T> tensors(ctx);
    const T *dy = tensors.in("dy"), *filter = tensors.in("filter"), *add = tensors.in("_add_to_output");
    T *dx = tensors.out("dx");
    const int64_t count = like.shape().elem_cnt();
    std::unique_ptr<DnnlConvolution> library;
    if constexpr (std::is_same_v<T, float>)
      if (g.filters > 0)
        library = std::make_unique<DnnlConvolution>(g, ConvDirection::kData, dy, filter, nullptr, dx,
                                                    ctx->isConstant("filter", 0), ctx->device_ctx()->threads());
    return user_op::bindTask([=, tensors = std::move(tensors), library = std::move(library)](DeviceCtx *d) {
      tensors.load(d);
      if (library)
        library->run(d);
      else
        directTransposedConvolution(d, g, dy, filter, dx);
      if (add)
        d->parallelFor(count, 16384, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) dx[i] += add[i];
        });
      tensors.store(d);
    });
  }
};

template <class T> class ConvFilterGradKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const ConvGeometry g = checked(convGeometry(*ctx->TensorDesc4ArgNameAndIndex("x", 0),
                                                *ctx->TensorDesc4ArgNameAndIndex("filter_diff", 0), ctx->user_op_conf(),
                                                ctx->Attr<int32_t>("num_spatial_dims"), true));
    StagedTensors<T> tensors(ctx);
    const T *dy = tensors.in("dy"), *x = tensors.in("x");
    T *diff = tensors.out("filter_diff");
    std::unique_ptr<DnnlFilterGradient> library;
    if constexpr (std::is_same_v<T, float>)
      if (g.batch > 0) library = std::make_unique<DnnlFilterGradient>(g, x, dy, diff);
    return user_op::bindTask([=, tensors = std::move(tensors), library = std::move(library)](DeviceCtx *d) {
      tensors.load(d);
      if (library)
        library->run(d);
      else
        directFilterGradient(d, g, x, dy, diff);
      tensors.store(d);
    });
  }
};

/// One thread adds up a channel, samples in order, rows of positions in f64.
template <class T> class ConvBiasGradKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape shape = ctx->TensorDesc4ArgNameAndIndex("dy", 0)->shape();
    const bool last = ctx->Attr<std::string>("data_format") == "channels_last";
    const int64_t rank = shape.NumAxes(), channels = shape.At(last ? rank - 1 : 1);
    const int64_t outer = last ? shape.Count(0, rank - 1) : shape.At(0), inner = last ? 1 : shape.Count(2);
    StagedTensors<T> tensors(ctx);
    const T *dy = tensors.in("dy");
    T *diff = tensors.out("bias_diff");
    return user_op::bindTask([=, tensors = std::move(tensors)](DeviceCtx *d) {
      constexpr int64_t kBlock = 64; // channels side by side
      tensors.load(d);
      if (inner > 1)
        d->parallelFor(channels, rowGrain(outer * inner), [&](int64_t begin, int64_t end) {
          for (int64_t c = begin; c < end; ++c) {
            double sum = 0;
            for (int64_t o = 0; o < outer; ++o)
              sum += rowSum(dy + (o * channels + c) * inner, inner, [](typename Simd<T>::V v) { return v; });
            diff[c] = static_cast<T>(sum);
          }
        });
      else
        d->parallelFor(channels, kBlock, [&](int64_t begin, int64_t end) {
          for (int64_t c0 = begin; c0 < end; c0 += kBlock) {
            const int64_t width = std::min(kBlock, end - c0);
            double sum[kBlock] = {};
            for (int64_t o = 0; o < outer; ++o)
              for (int64_t c = 0; c < width && inner; ++c) sum[c] += static_cast<double>(dy[o * channels + c0 + c]);
            for (int64_t c = 0; c < width; ++c) diff[c0 + c] = static_cast<T>(sum[c]);
          }
        });
      tensors.store(d);
    });
  }
};

OPC_REGISTER_FLOATING_CPU_KERNELS("conv_data_grad", ConvDataGradKernel, "dy");
OPC_REGISTER_FLOATING_CPU_KERNELS("conv_filter_grad", ConvFilterGradKernel, "dy");
OPC_REGISTER_FLOATING_CPU_KERNELS("conv_bias_grad", ConvBiasGradKernel, "dy");

} // namespace
} // namespace opc::ops
