// What OneFlow's kernels take from its general headers: switches, threads, lists of types, checks, signatures.
// SPDX-License-Identifier: Apache-2.0
#include "oneflow/core/common/blocking_counter.h"
#include "oneflow/core/common/switch_func.h"
#include "oneflow/core/framework/framework.h"
#include "oneflow/core/kernel/kernel_util.h"
#include "oneflow/core/kernel/random_generator.h"
#include "oneflow/core/operator/operator.h"
#include "oneflow/core/operator/reduce_sbp_util.h"
#include "oneflow/core/thread/thread_manager.h"
#include "oneflow/user/kernels/op_kernel_state_wrapper.h"

namespace oneflow {
namespace {

// y = 100 rank + bytes of an element, by a function that a switch chooses.
template <typename T, int32_t NDIMS> void describe(float *y) { *y = 100 * NDIMS + sizeof(T); }
struct Describe {
#define MAKE_ENTRY(func_name, T, NDIMS) func_name<OF_PP_PAIR_FIRST(T), NDIMS>
#define MAKE_TYPED_ENTRY(func_name, T, NDIMS) func_name<T, NDIMS>
  DEFINE_STATIC_SWITCH_FUNC(void, describe, MAKE_TYPED_ENTRY, MAKE_DATA_TYPE_CTRV_SEQ(ARITHMETIC_DATA_TYPE_SEQ),
                            MAKE_NDIM_CTRV_SEQ(DIM_SEQ));
};
class Switched final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    Describe::Switchdescribe(SwitchCase(x->data_type(), x->shape().NumAxes()),
                             ctx->Tensor4ArgNameAndIndex("y", 0)->mut_dptr<float>());
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return true; }
};
REGISTER_USER_OP("compat_switch")
    .Input("x")
    .Output("y")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      *ctx->TensorDesc4ArgNameAndIndex("y", 0) = user_op::TensorDesc(Shape({1}), DataType::kFloat);
      return Maybe<void>::Ok();
    });
REGISTER_USER_KERNEL("compat_switch").SetCreateFn<Switched>().SetIsMatchedHob(user_op::HobDeviceTag() == "cpu");

// y[i] = x[i] + i: half by a loop on threads, half by work that a pool is given; on parts that a splitter makes.
class Threads final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const user_op::Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    const float *from = x->dptr<float>();
    float *to = ctx->Tensor4ArgNameAndIndex("y", 0)->mut_dptr<float>();
    const int64_t n = x->shape().elem_cnt(), half = n / 2;
    MultiThreadLoop(half, [=](size_t i) { to[i] = from[i] + i; });
    const int64_t parts = Global<ThreadPool>::Get()->thread_num();
    const BalancedSplitter splitter(n - half, parts);
    BlockingCounter counter(parts);
    FOR_RANGE(int64_t, part, 0, parts) {
      const Range range = splitter.At(part);
      Global<ThreadPool>::Get()->AddWork([=, &counter]() {
        FOR_RANGE(int64_t, i, half + range.begin(), half + range.end()) { to[i] = from[i] + i; }
        counter.Decrease();
      });
    }
    counter.WaitUntilCntEqualZero();
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_OP("compat_threads")
    .Input("x")
    .Output("y")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged)
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape().NumAxes();
      auto isReduced = ReduceSbpUtil::MakePredicatorIsReducedAxis(HashSet<int32_t>{0}, rank);
      FOR_RANGE(int64_t, i, 0, rank) {
        if (isReduced(i)) ctx->NewBuilder().Split(user_op::OpArg("x", 0), i).Split(ctx->outputs(), i).Build();
      }
      SbpSignatureList list;
      user_op::UserOpSbpSignatureBuilder(&list).Split(ctx->inputs(), 1).PartialSum(ctx->outputs()).Build();
      for (const auto &signature : list.sbp_signature())
        for (const auto &pair : signature.bn_in_op2sbp_parallel())
          if (pair.second.has_split_parallel())
            CHECK_OR_RETURN(pair.first == GenRepeatedBn("x", 0) && pair.second.split_parallel().axis() == 1)
                << pair.second.DebugString();
      return Maybe<void>::Ok();
    });
REGISTER_USER_KERNEL("compat_threads").SetCreateFn<Threads>().SetIsMatchedHob(user_op::HobDeviceTag() == "cpu");

// The types of a list, the greatest number of each, and their converted element.
Maybe<Shape> countTypes() {
#define COUNT_ONE(cpp, type) +1
  return std::make_shared<Shape>(
      DimVector{0 OF_PP_FOR_EACH_TUPLE(COUNT_ONE, ARITHMETIC_DATA_TYPE_SEQ FLOAT16_DATA_TYPE_SEQ)});
}
class Types final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    float *y = ctx->Tensor4ArgNameAndIndex("y", 0)->mut_dptr<float>();
#define WRITE_ONE(cpp, type)                                                                                           \
  CheckDataType<cpp>(type);                                                                                            \
  *y++ = static_cast<float>(GetMaxVal<cpp>() / static_cast<cpp>(2));
    OF_PP_FOR_EACH_TUPLE(WRITE_ONE, ARITHMETIC_DATA_TYPE_SEQ FLOAT16_DATA_TYPE_SEQ)
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return true; }
};
REGISTER_USER_OP("compat_types")
    .Input("x")
    .Output("y")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      const auto &shape = JUST(countTypes());
      *ctx->Shape4ArgNameAndIndex("y", 0) = *shape;
      CHECK_EQ_OR_RETURN(shape->NumAxes(), 1);
      return Maybe<void>::Ok();
    });
REGISTER_USER_KERNEL("compat_types").SetCreateFn<Types>().SetIsMatchedHob(user_op::HobDeviceTag() == "cpu");

// y is drawn anew in each run, by a generator that is the kernel's state.
class Random final : public user_op::OpKernel {
public:
  std::shared_ptr<user_op::OpKernelState> CreateOpKernelState(user_op::KernelInitContext *ctx) const override {
    return std::make_shared<OpKernelStateWrapper<RandomGenerator<DeviceType::kCPU>>>(ctx->Attr<int64_t>("seed"),
                                                                                     ctx->device_ctx());
  }

private:
  void Compute(user_op::KernelComputeContext *ctx, user_op::OpKernelState *state) const override {
    auto *generator = dynamic_cast<OpKernelStateWrapper<RandomGenerator<DeviceType::kCPU>> *>(state);
    CHECK_NOTNULL(generator);
    user_op::Tensor *y = ctx->Tensor4ArgNameAndIndex("y", 0);
    generator->Mutable()->Uniform<float>(y->shape().elem_cnt(), 2, 5, y->mut_dptr<float>());
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_CPU_ONLY_USER_OP("compat_random")
    .Input("x")
    .Output("y")
    .Attr<int64_t>("seed", 0)
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged);
REGISTER_USER_KERNEL("compat_random").SetCreateFn<Random>().SetIsMatchedHob(user_op::HobDeviceTag() == "cpu");

// Ends with one of the ways in which sources give up, which an attribute names.
class GivesUp final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const std::string &how = ctx->Attr<std::string>("how");
    const Shape shape = ctx->Tensor4ArgNameAndIndex("x", 0)->shape();
    if (how == "check") CHECK_EQ(shape, Shape({1})) << "what is expected";
    if (how == "fatal") LOG(FATAL) << "a fatal word";
    if (how == "todo") TODO();
    if (how == "unimplemented") UNIMPLEMENTED();
    if (how == "just") CHECK_JUST(DeviceType4DeviceTag("tpu"));
    if (how == "type") CheckDataType<double>(DataType::kFloat);
    LOG(INFO) << "a word of kernel " << ctx->user_op_conf().op_name();
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_OP("compat_gives_up")
    .Input("x")
    .Output("y")
    .Attr<std::string>("how", "")
    .SetTensorDescInferFn(user_op::TensorDescInferFnUtil::Unchanged);
REGISTER_USER_KERNEL("compat_gives_up").SetCreateFn<GivesUp>().SetIsMatchedHob(user_op::HobDeviceTag() == "cpu");

} // namespace
} // namespace oneflow
