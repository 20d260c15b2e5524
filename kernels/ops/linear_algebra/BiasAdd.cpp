// bias_add: a vector added along one axis.
// SPDX-License-Identifier: Apache-2.0
#include "MatrixProduct.h"
#include "support/RegisterFloating.h"

#include <algorithm>

namespace opc::ops {
namespace {

using user_op::Case;
using user_op::InferContext;
using user_op::TensorDesc;

Maybe<int64_t> biasAxis(int32_t axis, const TensorDesc &a) {
  const int64_t rank = a.shape().NumAxes();
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank)
    return Error::InvalidValueError().id("OPC0205").help("axis must be in [" + std::to_string(-rank) + ", " +
                                                         std::to_string(rank - 1) + "]")
           << "axis " << axis << " is outside a, which is " << a.toString();
  return at;
}

REGISTER_USER_OP("bias_add")
    .Input("a")
    .Input("b")
    .Output("out")
    .RequiredAttr<int32_t>("axis")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const TensorDesc a = ctx->InputTensorDesc("a", 0), b = ctx->InputTensorDesc("b", 0);
      const int64_t axis = JUST(biasAxis(ctx->Attr<int32_t>("axis"), a));
      if (a.data_type() != b.data_type()) return dtypeMismatch("a", a, "b", b).help("cast one of them");
      if (b.shape().NumAxes() != 1 || b.shape().At(0) != a.shape().At(axis))
        return Error::ShapeMismatch() << "b must be a vector of " << a.shape().At(axis)
                                      << " elements, as many as a's dimension " << axis << ": a is " << a.toString()
                                      << ", b is " << b.toString();
      *ctx->MutOutputTensorDesc("out", 0) = a;
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const TensorDesc &a = ctx->LogicalTensorDesc4InputArgNameAndIndex("a", 0);
      const int64_t axis = JUST(biasAxis(ctx->Attr<int32_t>("axis"), a));
      const user_op::OpArg x("a", 0), b("b", 0), out("out", 0);
      for (int64_t i = 0; i < a.shape().NumAxes(); ++i) {
        auto builder = ctx->NewBuilder();
        builder.Split(x, i).Split(out, i);
        if (i == axis)
          builder.Split(b, 0);
        else
          builder.Broadcast(b);
        builder.Build();
      }
      ctx->NewBuilder().PartialSum(x).PartialSum(b).PartialSum(out).Build();
      return Maybe<void>::Ok();
    })
    .Doc("Adds the vector b along one axis of a: out[..., c, ...] = a[..., c, ...] + b[c], c the index in dimension "
         "`axis` (negative: from the end).")
    .Cases({Case("rows").In("a", {3, 17}, -5, 5).In("b", {17}, -5, 5).Attr("axis", int32_t{1}),
            Case("channels").In("a", {2, 3, 5, 4}, -5, 5).In("b", {3}, -5, 5).Attr("axis", int32_t{1}),
            Case("first").In("a", {3, 2}, -5, 5).In("b", {3}, -5, 5).Attr("axis", int32_t{-2}),
            Case("empty").In("a", {0, 4}).In("b", {4}).Attr("axis", int32_t{1})});

/// The sum of two elements; half types are added in f32.
template <class T> T sumOf(T x, T y) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(x + y);
  else
    return T(static_cast<float>(x) + static_cast<float>(y));
}

template <class T> class BiasAddKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const user_op::Tensor *in = ctx->Tensor4ArgNameAndIndex("a", 0);
    const Shape &shape = in->shape();
    int64_t axis = ctx->Attr<int32_t>("axis");
    if (axis < 0) axis += shape.NumAxes();
    const int64_t channels = shape.At(axis), inner = shape.Count(axis + 1), rows = shape.Count(0, axis + 1);
    const T *a = in->dptr<T>(), *b = ctx->Tensor4ArgNameAndIndex("b", 0)->dptr<T>();
    T *out = ctx->Tensor4ArgNameAndIndex("out", 0)->mut_dptr<T>();
    if (inner == 1) // the axis is the last one that counts: whole vectors are added
      return user_op::bindTask([=](DeviceCtx *d) {
        d->parallelFor(rows / std::max<int64_t>(channels, 1),
                       std::max<int64_t>(1, 16384 / std::max<int64_t>(channels, 1)), [&](int64_t begin, int64_t end) {
                         for (int64_t r = begin; r < end; ++r)
                           for (int64_t c = 0; c < channels; ++c)
                             out[r * channels + c] = sumOf(a[r * channels + c], b[c]);
                       });
      });
    return user_op::bindTask([=](DeviceCtx *d) {
      d->parallelFor(rows, std::max<int64_t>(1, 16384 / std::max<int64_t>(inner, 1)), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const T bias = b[r % channels];
          for (int64_t i = r * inner; i < (r + 1) * inner; ++i) out[i] = sumOf(a[i], bias);
        }
      });
    });
  }
};

Maybe<void> inPlace(const InferContext &, user_op::AddInplaceArgPair add) { return add("out", 0, "a", 0, true); }

#define OPC_REGISTER_BIAS_ADD(cpp)                                                                                     \
  OPC_REGISTER_CPU_KERNEL("bias_add", BiasAddKernel<cpp>, "out", GetDataType<cpp>::value).SetInplaceProposalFn(inPlace)
OPC_REGISTER_BIAS_ADD(float);
OPC_REGISTER_BIAS_ADD(double);
OPC_REGISTER_BIAS_ADD(float16);
OPC_REGISTER_BIAS_ADD(bfloat16);
OPC_REGISTER_BIAS_ADD(int32_t);
OPC_REGISTER_BIAS_ADD(int64_t);
OPC_REGISTER_BIAS_ADD(int8_t);
OPC_REGISTER_BIAS_ADD(uint8_t);
OPC_REGISTER_BIAS_ADD(int16_t);
OPC_REGISTER_BIAS_ADD(uint16_t);
OPC_REGISTER_BIAS_ADD(uint32_t);
OPC_REGISTER_BIAS_ADD(uint64_t);

} // namespace
} // namespace opc::ops
