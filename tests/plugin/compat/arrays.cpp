// Kernels that compute by the functions of OneFlow's headers: matrices, axes, broadcasting, reductions, copies.
// SPDX-License-Identifier: Apache-2.0
#include "oneflow/core/common/balanced_splitter.h"
#include "oneflow/core/common/nd_index_offset_helper.h"
#include "oneflow/core/device/memory_copier.h"
#include "oneflow/core/framework/framework.h"
#include "oneflow/core/kernel/batch_gather_kernel_util.h"
#include "oneflow/core/kernel/gather_kernel_util.h"
#include "oneflow/core/kernel/indexed_slices_reduce_sum_kernel_util.h"
#include "oneflow/core/kernel/square_sum_kernel_util.h"
#include "oneflow/core/kernel/unsorted_segment_sum_kernel_util.h"
#include "oneflow/core/ndarray/ndarray_util.h"

namespace oneflow {
namespace {

/// A kernel of f32 tensors that a function computes.
template <void (*compute)(user_op::KernelComputeContext *)> class FunctionOfTensors final : public user_op::OpKernel {
  void Compute(user_op::KernelComputeContext *ctx) const override { compute(ctx); }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
#define REGISTER_COMPAT_KERNEL(name, compute)                                                                          \
  REGISTER_USER_KERNEL(name).SetCreateFn<FunctionOfTensors<compute>>().SetIsMatchedHob(user_op::HobDeviceTag() ==      \
                                                                                       DeviceType::kCPU);

const float *in(user_op::KernelComputeContext *ctx, const char *name) {
  return ctx->Tensor4ArgNameAndIndex(name, 0)->dptr<float>();
}
float *out(user_op::KernelComputeContext *ctx, const char *name) {
  return ctx->Tensor4ArgNameAndIndex(name, 0)->mut_dptr<float>();
}
const ShapeView &shapeOf(user_op::KernelComputeContext *ctx, const char *name) {
  return ctx->Tensor4ArgNameAndIndex(name, 0)->shape();
}
using Cpu = NewKernelUtil<DeviceType::kCPU>;

// c = 2 op(a) op(b) + 3 d, and the same product batch by batch.
template <DeviceType device_type, typename T> class Gemm final : public user_op::OpKernel {
public:
  Gemm() = default;
  ~Gemm() = default;

private:
  void Compute(user_op::KernelComputeContext *ctx) const override {
    const CBLAS_TRANSPOSE ta = ctx->Attr<bool>("transpose_a") ? CblasTrans : CblasNoTrans;
    const CBLAS_TRANSPOSE tb = ctx->Attr<bool>("transpose_b") ? CblasTrans : CblasNoTrans;
    const user_op::Tensor *a = ctx->Tensor4ArgNameAndIndex("a", 0), *b = ctx->Tensor4ArgNameAndIndex("b", 0);
    user_op::Tensor *c = ctx->Tensor4ArgNameAndIndex("c", 0), *twice = ctx->Tensor4ArgNameAndIndex("twice", 0);
    const int m = c->shape().At(0), n = c->shape().At(1), k = a->shape().At(ta == CblasTrans ? 0 : 1);
    Memcpy<device_type>(ctx->device_ctx(), c->mut_dptr(), ctx->Tensor4ArgNameAndIndex("d", 0)->dptr(),
                        c->shape().elem_cnt() * sizeof(T));
    NewKernelUtil<device_type>::OFGemm(ctx->device_ctx(), ta, tb, m, n, k, GetOneVal<T>() + GetOneVal<T>(),
                                       a->dptr<T>(), b->dptr<T>(), static_cast<T>(3), c->mut_dptr<T>());
    std::vector<T> a2(a->dptr<T>(), a->dptr<T>() + m * k), b2(b->dptr<T>(), b->dptr<T>() + k * n);
    a2.insert(a2.end(), a2.begin(), a2.begin() + m * k);
    b2.insert(b2.end(), b2.begin(), b2.begin() + k * n);
    Memset<device_type>(ctx->device_ctx(), twice->mut_dptr(), -1, twice->shape().elem_cnt() * sizeof(T)); // NaN
    NewKernelUtil<device_type>::OFBatchedGemm(ctx->device_ctx(), ta, tb, 2, m, n, k, GetOneVal<T>(), a2.data(),
                                              b2.data(), GetZeroVal<T>(), twice->mut_dptr<T>(), nullptr);
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

REGISTER_USER_OP("compat_gemm")
    .Input("a")
    .Input("b")
    .Input("d")
    .Output("c")
    .Output("twice")
    .Attr<bool>("transpose_a", false)
    .Attr<bool>("transpose_b", false)
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      const Shape &d = *ctx->Shape4ArgNameAndIndex("d", 0);
      *ctx->Shape4ArgNameAndIndex("c", 0) = d;
      *ctx->Shape4ArgNameAndIndex("twice", 0) = Shape({2, d.At(0), d.At(1)});
      return Maybe<void>::Ok();
    });
#define REGISTER_GEMM(device, pair)                                                                                    \
  REGISTER_USER_KERNEL("compat_gemm")                                                                                  \
      .SetCreateFn<Gemm<device, OF_PP_PAIR_FIRST(pair)>>()                                                             \
      .SetIsMatchedHob((user_op::HobDeviceTag() == device) &                                                           \
                       (user_op::HobDataType("a", 0) == OF_PP_PAIR_SECOND(pair)));
OF_PP_SEQ_PRODUCT_FOR_EACH_TUPLE(REGISTER_GEMM, DEVICE_TYPE_SEQ, FLOATING_DATA_TYPE_SEQ)

// y = x with its axes permuted.
void transpose(user_op::KernelComputeContext *ctx) {
  const auto &permutation = ctx->Attr<std::vector<int32_t>>("perm");
  Cpu::Transpose(ctx->device_ctx(), permutation.size(), shapeOf(ctx, "x"), shapeOf(ctx, "y"), permutation,
                 shapeOf(ctx, "x").elem_cnt(), in(ctx, "x"), out(ctx, "y"));
}
REGISTER_USER_OP("compat_transpose")
    .Input("x")
    .Output("y")
    .Attr<std::vector<int32_t>>("perm")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      const Shape &x = *ctx->Shape4ArgNameAndIndex("x", 0);
      DimVector dims;
      for (int32_t axis : ctx->Attr<std::vector<int32_t>>("perm")) dims.push_back(x.At(axis));
      *ctx->Shape4ArgNameAndIndex("y", 0) = Shape(dims);
      return Maybe<void>::Ok();
    });
REGISTER_COMPAT_KERNEL("compat_transpose", transpose)

// A result for each function of two broadcast arrays.
#define BROADCAST_SEQ (Add)(Sub)(Mul)(Div)(Max)(Min)(FloorMod)
void broadcast(user_op::KernelComputeContext *ctx) {
  const int64_t rank = shapeOf(ctx, "Add").NumAxes();
  XpuVarNdarray<const float> x(shapeOf(ctx, "x"), in(ctx, "x"), rank), y(shapeOf(ctx, "y"), in(ctx, "y"), rank);
#define COMPUTE(name)                                                                                                  \
  NdarrayUtil<DeviceType::kCPU, float>::Broadcast##name(                                                               \
      ctx->device_ctx(), XpuVarNdarray<float>(shapeOf(ctx, #name), out(ctx, #name)), x, y);
  OF_PP_FOR_EACH_ATOMIC(COMPUTE, BROADCAST_SEQ)
#undef COMPUTE
  auto *less = ctx->Tensor4ArgNameAndIndex("LT", 0);
  NdarrayUtil<DeviceType::kCPU, float>::BroadcastLT(
      ctx->device_ctx(), XpuVarNdarray<int8_t>(less->shape(), less->mut_dptr<int8_t>()), x, y);
}
#define OUTPUT(name) .Output(#name)
REGISTER_USER_OP("compat_broadcast")
    .Input("x")
    .Input("y") OF_PP_FOR_EACH_ATOMIC(OUTPUT, BROADCAST_SEQ)
    .Output("LT")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      const Shape x = *ctx->Shape4ArgNameAndIndex("x", 0), y = *ctx->Shape4ArgNameAndIndex("y", 0);
      CHECK_GE_OR_RETURN(x.NumAxes(), y.NumAxes());
      Shape whole = x;
      const Shape wide = CreateLeftExtendedShape(ShapeView(y), x.NumAxes());
      for (int64_t axis : x.Axes4BroadcastTo(Shape::Ones(x.NumAxes()) == x ? wide : x)) whole.Set(axis, wide.At(axis));
      for (int64_t i = 0; i < whole.NumAxes(); ++i) whole.Set(i, std::max(x.At(i), wide.At(i)));
      for (const auto &pair : ctx->outputs()) *ctx->Shape4ArgNameAndIndex(pair.first, pair.second) = whole;
      *ctx->Dtype4ArgNameAndIndex("LT", 0) = GetDataType<int8_t>::value;
      return Maybe<void>::Ok();
    });
REGISTER_COMPAT_KERNEL("compat_broadcast", broadcast)

// Reductions over an axis.
#define REDUCE_SEQ (Sum)(Max)(Min)(Prod)
void reduce(user_op::KernelComputeContext *ctx) {
  const Shape &reduced = CreateReducedShape(shapeOf(ctx, "x"), {ctx->Attr<int32_t>("axis")});
  std::vector<float> tmp(shapeOf(ctx, "x").elem_cnt());
#define COMPUTE(name)                                                                                                  \
  NdarrayUtil<DeviceType::kCPU, float>::Reduce##name(ctx->device_ctx(),                                                \
                                                     XpuVarNdarray<float>(reduced, out(ctx, #name)),                   \
                                                     XpuVarNdarray<const float>(shapeOf(ctx, "x"), in(ctx, "x")),      \
                                                     XpuVarNdarray<float>(shapeOf(ctx, "x"), tmp.data()));
  OF_PP_FOR_EACH_ATOMIC(COMPUTE, REDUCE_SEQ)
#undef COMPUTE
}
REGISTER_USER_OP("compat_reduce")
    .Input("x") OF_PP_FOR_EACH_ATOMIC(OUTPUT, REDUCE_SEQ)
    .Attr<int32_t>("axis", -1)
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      const int32_t axis = ctx->Attr<int32_t>("axis");
      for (const auto &pair : ctx->outputs())
        *ctx->Shape4ArgNameAndIndex(pair.first, pair.second) =
            CreateReducedShape(*ctx->Shape4ArgNameAndIndex("x", 0), {axis}).RemoveOnes({axis});
      return Maybe<void>::Ok();
    });
REGISTER_COMPAT_KERNEL("compat_reduce", reduce)

// x in the middle of a frame of sevens, whose widths are an attribute; by boxes and by indices.
void frame(user_op::KernelComputeContext *ctx) {
  const ShapeView &x = shapeOf(ctx, "x"), &y = shapeOf(ctx, "boxes");
  const auto &widths = ctx->Attr<std::vector<int64_t>>("widths");
  Cpu::Fill(ctx->device_ctx(), y.elem_cnt(), 7.f, out(ctx, "boxes"));
  Cpu::Fill(ctx->device_ctx(), y.elem_cnt(), 7.f, out(ctx, "indices"));
  MemoryCopyNdDesc box;
  y.ToShape(&box.dst_shape);
  x.ToShape(&box.src_shape);
  box.dst_pos = NdIndex(DimVector(widths.begin(), widths.end()));
  box.src_pos = NdIndex(DimVector(x.NumAxes(), 0));
  x.ToShape(&box.extent);
  std::unique_ptr<MemoryCopier> copier(NewDefaultMemoryCopier(ctx->device_type()));
  copier->CopyElem<float>(ctx->device_ctx(), out(ctx, "boxes"), in(ctx, "x"), box);

  NdIndexOffsetHelper<int64_t, SHAPE_MAX_AXIS_SIZE> from(x.ptr(), x.NumAxes()), to(y.ptr(), y.NumAxes());
  for (int64_t i = 0; i < x.elem_cnt(); ++i) {
    int64_t index[SHAPE_MAX_AXIS_SIZE];
    from.OffsetToNdIndex(i, index, x.NumAxes());
    for (int64_t a = 0; a < x.NumAxes(); ++a) index[a] += widths[a];
    out(ctx, "indices")[to.NdIndexToOffset(index, y.NumAxes())] = in(ctx, "x")[i];
  }
}
REGISTER_USER_OP("compat_frame")
    .Input("x")
    .Output("boxes")
    .Output("indices")
    .Attr<std::vector<int64_t>>("widths")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      Shape framed = *ctx->Shape4ArgNameAndIndex("x", 0);
      const auto &widths = ctx->Attr<std::vector<int64_t>>("widths");
      CHECK_EQ_OR_RETURN(static_cast<int64_t>(widths.size()), framed.NumAxes()) << framed;
      for (int64_t i = 0; i < framed.NumAxes(); ++i) framed.Set(i, framed.At(i) + 2 * widths[i]);
      *ctx->Shape4ArgNameAndIndex("boxes", 0) = framed;
      *ctx->Shape4ArgNameAndIndex("indices", 0) = framed;
      return Maybe<void>::Ok();
    });
REGISTER_COMPAT_KERNEL("compat_frame", frame)

// Rows by index: gathered, added up by segment, and by equal indices.
void rows(user_op::KernelComputeContext *ctx) {
  const user_op::Tensor *ids = ctx->Tensor4ArgNameAndIndex("ids", 0);
  const int64_t count = ids->shape().At(0), total = shapeOf(ctx, "x").At(0), size = shapeOf(ctx, "x").At(1);
  const int32_t *at = ids->dptr<int32_t>();
  DeviceCtx *device = ctx->device_ctx();
  GatherKernelUtilImpl<DeviceType::kCPU, float, int32_t>::Forward(device, at, count, in(ctx, "x"),
                                                                  Shape({1, total, size}), out(ctx, "gathered"), 0);
  BatchGatherKernelUtilImpl<DeviceType::kCPU, float, int32_t>::Forward(
      device, in(ctx, "x"), at, Shape({1, count, size}), total, out(ctx, "batched"));
  Memset<DeviceType::kCPU>(device, out(ctx, "summed"), 0, total * size * sizeof(float));
  UnsortedSegmentSumKernelUtil<DeviceType::kCPU, float, int32_t, float>::UnsortedSegmentSum(
      device, at, in(ctx, "gathered"), count, total, 1, size, 0, out(ctx, "summed"));
  int64_t different = 0;
  std::vector<int32_t> which(count);
  IndexedSlicesReduceSumKernelUtil<DeviceType::kCPU, int32_t, float, int64_t>::ReduceSum(
      device, count, size, at, in(ctx, "gathered"), &different, which.data(), out(ctx, "by_index"), nullptr, 0);
  SquareSumKernelUtil<DeviceType::kCPU, float>::SquareSum(device, total * size, in(ctx, "x"), out(ctx, "squares"));
}
REGISTER_USER_OP("compat_rows")
    .Input("x")
    .Input("ids")
    .Output("gathered")
    .Output("batched")
    .Output("summed")
    .Output("by_index")
    .Output("squares")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      const Shape x = *ctx->Shape4ArgNameAndIndex("x", 0), ids = *ctx->Shape4ArgNameAndIndex("ids", 0);
      for (const char *name : {"gathered", "batched", "by_index"})
        *ctx->Shape4ArgNameAndIndex(name, 0) = Shape({ids.At(0), x.At(1)});
      *ctx->Shape4ArgNameAndIndex("summed", 0) = x;
      *ctx->Shape4ArgNameAndIndex("squares", 0) = Shape({1});
      return Maybe<void>::Ok();
    })
    .SetInputArgModifyFn([](user_op::GetInputArgModifier GetInputArgModifierFn, const user_op::UserOpConfWrapper &) {
      user_op::InputArgModifier *ids = GetInputArgModifierFn("ids", 0);
      CHECK(ids != nullptr);
      ids->set_requires_grad(false);
    });
REGISTER_COMPAT_KERNEL("compat_rows", rows)

} // namespace
} // namespace oneflow
