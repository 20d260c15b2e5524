// l2_normalize: vectors along one axis, scaled to length one.
// SPDX-License-Identifier: Apache-2.0
#include "NormRules.h"
#include "SimdExp.h"
#include "StagedTensors.h"
#include "support/Axes.h"
#include "support/RegisterFloating.h"

#include <cmath>

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::Case;
using user_op::InferContext;
using user_op::TensorDesc;

REGISTER_USER_OP("l2_normalize")
    .Input("x")
    .Output("y")
    .Output("square_x_sum")
    .Attr<int32_t>("axis", 0)
    .Attr<float>("epsilon", 0.0f)
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const TensorDesc x = ctx->InputTensorDesc("x", 0);
      JUST(checkFloating("x", x));
      JUST(checkEpsilon(ctx->Attr<float>("epsilon")));
      const int64_t axis = JUST(resolveAxis(ctx->Attr<int32_t>("axis"), x.shape().NumAxes()));
      *ctx->MutOutputTensorDesc("y", 0) = x;
      *ctx->MutOutputTensorDesc("square_x_sum", 0) = x;
      ctx->MutOutputShape("square_x_sum", 0)->Set(axis, 1);
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape().NumAxes();
      const int64_t axis = JUST(resolveAxis(ctx->Attr<int32_t>("axis"), rank));
      for (int64_t i = 0; i < rank; ++i)
        if (i != axis) ctx->NewBuilder().Split(ctx->inputs(), i).Split(ctx->outputs(), i).Build();
      return Maybe<void>::Ok();
    })
    .Doc("Scales the vectors along `axis` to Euclidean length 1: y = x / sqrt(max(square_x_sum, epsilon)), with "
         "square_x_sum the sum of x^2 along the axis (kept as a dimension of 1).")
    .Cases({Case("rows").In("x", {3, 17}, -3, 3).Attr("axis", int32_t{1}).Attr("epsilon", 1e-10f),
            Case("channels").In("x", {2, 3, 5}, -3, 3).Attr("axis", int32_t{1}).Attr("epsilon", 1e-10f),
            Case("first").In("x", {4, 3}, -3, 3).Attr("axis", int32_t{-2}).Attr("epsilon", 1e-10f),
            Case("empty").In("x", {0, 3}).Attr("axis", int32_t{1}).Attr("epsilon", 1e-10f)});

template <class T> class L2NormalizeKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape &shape = ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape();
    const int64_t axis = valueOf(resolveAxis(ctx->Attr<int32_t>("axis"), shape.NumAxes()));
    const int64_t outer = shape.Count(0, axis), n = shape.At(axis), inner = shape.Count(axis + 1);
    const T epsilon = static_cast<T>(ctx->Attr<float>("epsilon"));
    StagedTensors<T> tensors(ctx);
    const T *x = tensors.in("x");
    T *y = tensors.out("y"), *sums = tensors.out("square_x_sum");
    return user_op::bindTask([=, tensors = std::move(tensors)](DeviceCtx *d) {
      tensors.load(d);
      using S = Simd<T>;
      if (inner == 1)
        d->parallelFor(outer, rowGrain(n), [&](int64_t begin, int64_t end) {
          for (int64_t o = begin; o < end; ++o) {
            const T sum = rowSum(x + o * n, n, [](typename S::V v) { return S::mul(v, v); });
            const T norm = std::sqrt(std::max(sum, epsilon));
            sums[o] = sum;
            for (int64_t i = o * n; i < (o + 1) * n; ++i) y[i] = x[i] / norm;
          }
        });
      else
        d->parallelFor(outer, rowGrain(n * inner), [&](int64_t begin, int64_t end) {
          for (int64_t o = begin; o < end; ++o) {
            T *sum = sums + o * inner;
            std::fill_n(sum, inner, T(0));
            for (int64_t c = 0; c < n; ++c) {
              const T *row = x + (o * n + c) * inner;
              for (int64_t i = 0; i < inner; ++i) sum[i] += row[i] * row[i];
            }
            for (int64_t c = 0; c < n; ++c) {
              const T *row = x + (o * n + c) * inner;
              T *to = y + (o * n + c) * inner;
              for (int64_t i = 0; i < inner; ++i) to[i] = row[i] / std::sqrt(std::max(sum[i], epsilon));
            }
          }
        });
      tensors.store(d);
    });
  }
};

OPC_REGISTER_FLOATING_CPU_KERNELS("l2_normalize", L2NormalizeKernel, "x");

} // namespace
} // namespace opc::ops
