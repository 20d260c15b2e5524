// The CPU kernels of myrelu, for float and double.
#include "oneflow/core/framework/framework.h"

namespace oneflow {
namespace {

template <typename T>
void MyRelu(DeviceCtx *ctx, const int64_t n, const T *x, T *y) {
  T zero = (T)(0);
  for (int64_t i = 0; i != n; ++i) {
    y[i] = std::max(x[i], zero);
  }
}

template <DeviceType device_type, typename T>
class ReluKernel final : public user_op::OpKernel {
public:
  ReluKernel() = default;
  ~ReluKernel() = default;

private:
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *in_tensor = ctx->Tensor4ArgNameAndIndex("in", 0);
    user_op::Tensor *out_tensor = ctx->Tensor4ArgNameAndIndex("out", 0);
    MyRelu<T>(ctx->device_ctx(), in_tensor->shape().elem_cnt(), in_tensor->dptr<T>(), out_tensor->mut_dptr<T>());
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

#define REGISTER_RELU_KERNEL(device, dtype)                              \
  REGISTER_USER_KERNEL("myrelu")                                         \
      .SetCreateFn<ReluKernel<device, dtype>>()                          \
      .SetIsMatchedHob((user_op::HobDeviceType() == device) &            \
                       (user_op::HobDataType("out", 0) == GetDataType<dtype>::value));

REGISTER_RELU_KERNEL(DeviceType::kCPU, float)
REGISTER_RELU_KERNEL(DeviceType::kCPU, double)

} // namespace
} // namespace oneflow
