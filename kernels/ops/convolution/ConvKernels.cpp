// CPU kernels of the convolutions: oneDNN for f32 and the half types, plain loops for f64.
// SPDX-License-Identifier: Apache-2.0
#include "ConvGeometry.h"
#include "DirectConvolution.h"
#include "DnnlConvolution.h"
#include "StagedTensors.h"
#include "opc/PackedInputs.h"
#include "support/RegisterFloating.h"

#include <optional>

namespace opc::ops {
namespace {

using namespace opc::cpu;

template <class T, int Dims> class ConvKernel : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const auto geometry = convGeometry(*ctx->TensorDesc4ArgNameAndIndex("in", 0),
                                       *ctx->TensorDesc4ArgNameAndIndex("weight", 0), ctx->user_op_conf(), Dims, true);
    if (!geometry.IsOk()) throw ContractError(geometry.status().message());
    const ConvGeometry g = geometry.value();
    StagedTensors<T> tensors(ctx);
    const T *in = tensors.in("in"), *weight = tensors.in("weight"), *bias = tensors.in("bias"),
            *add = tensors.in("_add_to_output");
    T *out = tensors.out("out");
    const int64_t count = ctx->TensorDesc4ArgNameAndIndex("out", 0)->shape().elem_cnt();
    std::unique_ptr<DnnlConvolution> library;
    if constexpr (std::is_same_v<T, float>)
      if (g.channels > 0) // oneDNN refuses convolutions over nothing
        library = std::make_unique<DnnlConvolution>(g, ConvDirection::kForward, in, weight, bias, out,
                                                    ctx->isConstant("weight", 0), ctx->device_ctx()->threads());
    if (library && library->hasPackedWeight()) user_op::notePackedInput(ctx, "weight");
    return user_op::bindTask([=, tensors = std::move(tensors), library = std::move(library)](DeviceCtx *d) {
      tensors.load(d);
      if (library)
        library->run(d);
      else
        directConvolution(d, g, in, weight, bias, out);
      if (add)
        d->parallelFor(count, 16384, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) out[i] += add[i];
        });
      tensors.store(d);
    });
  }
};
template <class T> class Conv1dKernel final : public ConvKernel<T, 1> {};
template <class T> class Conv2dKernel final : public ConvKernel<T, 2> {};
template <class T> class Conv3dKernel final : public ConvKernel<T, 3> {};

OPC_REGISTER_FLOATING_CPU_KERNELS("conv1d", Conv1dKernel, "in");
OPC_REGISTER_FLOATING_CPU_KERNELS("conv2d", Conv2dKernel, "in");
OPC_REGISTER_FLOATING_CPU_KERNELS("conv3d", Conv3dKernel, "in");

} // namespace
} // namespace opc::ops
