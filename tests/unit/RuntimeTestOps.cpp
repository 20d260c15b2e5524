// Operators for tests of the runtime: small, and each with one property that a test needs.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Op.h"

#include <cmath>

namespace opc::test {

using namespace user_op;

namespace {

/// out = in + value, bound, with in-place offered.
class AddKernel final : public OpKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    const float *x = in->dptr<float>();
    float *y = out->mut_dptr<float>();
    const int64_t n = in->shape().elem_cnt();
    const float v = ctx->Attr<float>("value");
    return bindTask([=](DeviceCtx *) {
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] + v;
    });
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

/// out = sum of squares of in, through a workspace; fails on a negative first element. Not bound.
class ScratchKernel final : public OpKernel {
public:
  void Compute(KernelComputeContext *ctx) const override {
    const Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    float *scratch = reinterpret_cast<float *>(ctx->Tensor4ArgNameAndIndex("tmp_buffer", 0)->mut_dptr<char>());
    const int64_t n = in->shape().elem_cnt();
    const float *x = in->dptr<float>();
    if (x[0] < 0) throw std::runtime_error("the first element is negative");
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) scratch[i] = x[i] * x[i];
    for (int64_t i = 0; i < n; ++i) sum += scratch[i];
    *ctx->Tensor4ArgNameAndIndex("out", 0)->mut_dptr<float>() = sum;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

/// out = in * weight[0], with the weight read at bind time when it is constant; refuses NaN there.
class PackedKernel final : public OpKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    if (!ctx->isConstant("weight", 0)) throw ContractError("the weight is not constant");
    const float w = *ctx->Tensor4ArgNameAndIndex("weight", 0)->dptr<float>();
    if (std::isnan(w)) throw ContractError("the weight is no number");
    const float *x = ctx->Tensor4ArgNameAndIndex("in", 0)->dptr<float>();
    float *y = ctx->Tensor4ArgNameAndIndex("out", 0)->mut_dptr<float>();
    const int64_t n = ctx->Tensor4ArgNameAndIndex("in", 0)->shape().elem_cnt();
    return bindTask([=](DeviceCtx *) {
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] * w;
    });
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

/// model += delta, in place on the variable.
class UpdateKernel final : public OpKernel {
public:
  void Compute(KernelComputeContext *ctx) const override {
    Tensor *model = ctx->Tensor4ArgNameAndIndex("model", 0);
    const float *d = ctx->Tensor4ArgNameAndIndex("delta", 0)->dptr<float>();
    float *m = model->mut_dptr<float>();
    for (int64_t i = 0; i < model->shape().elem_cnt(); ++i) m[i] += d[i];
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return true; }
};

/// out = in, but for the last element, which is not written, and the first, which is what an earlier one of these read
/// first: both are faults that correct values of a run can hide.
class FaultyKernel final : public OpKernel {
public:
  void Compute(KernelComputeContext *ctx) const override {
    static const float *before = nullptr;
    const Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    const float *x = in->dptr<float>();
    float *y = ctx->Tensor4ArgNameAndIndex("out", 0)->mut_dptr<float>();
    for (int64_t i = 0; i + 1 < in->shape().elem_cnt(); ++i) y[i] = x[i];
    if (ctx->Attr<bool>("recalls")) y[0] = *before;
    before = x;
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

REGISTER_USER_OP("runtime_test_add")
    .Input("in")
    .Output("out")
    .Attr<float>("value", 0.f)
    .SetTensorDescInferFn(TensorDescInferFnUtil::Unchanged);
REGISTER_USER_KERNEL("runtime_test_add")
    .SetCreateFn<AddKernel>()
    .SetIsMatchedHob((HobDeviceTag() == "cpu") & (HobDataType("out", 0) == kFloat))
    .SetInplaceProposalFn([](const InferContext &, AddInplaceArgPair add) -> Maybe<void> {
      return add("out", 0, "in", 0, true);
    });

REGISTER_USER_OP("runtime_test_sum_squares")
    .Input("in")
    .Output("out")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      *ctx->Shape4ArgNameAndIndex("out", 0) = Shape{1};
      return Maybe<void>::Ok();
    });
REGISTER_USER_KERNEL("runtime_test_sum_squares")
    .SetCreateFn<ScratchKernel>()
    .SetIsMatchedHob(HobDeviceTag() == "cpu")
    .SetInferTmpSizeFn([](InferContext *ctx) -> size_t {
      return static_cast<size_t>(ctx->InputShape("in", 0).elem_cnt()) * sizeof(float);
    });

REGISTER_USER_OP("runtime_test_flat")
    .Input("in")
    .Output("out")
    .View()
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      *ctx->Shape4ArgNameAndIndex("out", 0) = Shape{ctx->InputShape("in", 0).elem_cnt()};
      return Maybe<void>::Ok();
    });

REGISTER_USER_OP("runtime_test_packed")
    .Input("in")
    .Input("weight")
    .Output("out")
    .SetTensorDescInferFn(TensorDescInferFnUtil::Unchanged);
REGISTER_USER_KERNEL("runtime_test_packed").SetCreateFn<PackedKernel>().SetIsMatchedHob(HobDeviceTag() == "cpu");

REGISTER_USER_OP("runtime_test_faulty")
    .Input("in")
    .Output("out")
    .Attr<bool>("recalls", false)
    .SetTensorDescInferFn(TensorDescInferFnUtil::Unchanged);
REGISTER_USER_KERNEL("runtime_test_faulty").SetCreateFn<FaultyKernel>().SetIsMatchedHob(HobDeviceTag() == "cpu");

REGISTER_USER_OP("runtime_test_update")
    .Input("model")
    .Input("delta")
    .SetTensorDescInferFn([](InferContext *) -> Maybe<void> { return Maybe<void>::Ok(); })
    .SetInputArgModifyFn([](GetInputArgModifier get, const UserOpConfWrapper &) {
      get("model", 0)->set_is_mutable(true);
    });
REGISTER_USER_KERNEL("runtime_test_update").SetCreateFn<UpdateKernel>().SetIsMatchedHob(HobDeviceTag() == "cpu");

} // namespace
} // namespace opc::test
