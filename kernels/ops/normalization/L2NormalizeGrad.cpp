// l2_normalize_grad.
// SPDX-License-Identifier: Apache-2.0
#include "NormRules.h"
#include "SimdExp.h"
#include "StagedTensors.h"
#include "support/Axes.h"
#include "support/RegisterFloating.h"
#include "support/SbpRules.h"

#include <cmath>

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::Case;
using user_op::InferContext;
using user_op::TensorDesc;

/// One vector: dx = (dy - y * sum(y * dy)) / norm; where the sum of squares is below epsilon the norm is a constant,
/// and dx = dy / norm.
template <class T> class L2NormalizeGradKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape &shape = ctx->TensorDesc4ArgNameAndIndex("dy", 0)->shape();
    const int64_t axis = valueOf(resolveAxis(ctx->Attr<int32_t>("axis"), shape.NumAxes()));
    const int64_t outer = shape.Count(0, axis), n = shape.At(axis), inner = shape.Count(axis + 1);
    const T epsilon = static_cast<T>(ctx->Attr<float>("epsilon"));
    StagedTensors<T> tensors(ctx);
    const T *dy = tensors.in("dy"), *y = tensors.in("y"), *sums = tensors.in("square_x_sum");
    T *dx = tensors.out("dx");
    return user_op::bindTask([=, tensors = std::move(tensors)](DeviceCtx *d) {
      tensors.load(d);
      d->parallelFor(outer * inner, rowGrain(n), [&](int64_t begin, int64_t end) {
        for (int64_t v = begin; v < end; ++v) {
          const int64_t at = v / inner * n * inner + v % inner;
          const T square = sums[v], norm = std::sqrt(std::max(square, epsilon));
          T along = 0;
          if (square >= epsilon)
            for (int64_t i = 0; i < n; ++i) along += y[at + i * inner] * dy[at + i * inner];
          for (int64_t i = 0; i < n; ++i) dx[at + i * inner] = (dy[at + i * inner] - y[at + i * inner] * along) / norm;
        }
      });
      tensors.store(d);
    });
  }
};

REGISTER_USER_OP("l2_normalize_grad")
    .GradientOf("l2_normalize")
    .Input("dy")
    .Input("y")
    .Input("square_x_sum")
    .Output("dx")
    .Attr<int32_t>("axis", 0)
    .Attr<float>("epsilon", 0.0f)
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const TensorDesc dy = ctx->InputTensorDesc("dy", 0);
      JUST(checkFloating("dy", dy));
      JUST(checkEpsilon(ctx->Attr<float>("epsilon")));
      const int64_t axis = JUST(resolveAxis(ctx->Attr<int32_t>("axis"), dy.shape().NumAxes()));
      TensorDesc sums = dy;
      sums.mut_shape()->Set(axis, 1);
      if (ctx->InputTensorDesc("y", 0) != dy || ctx->InputTensorDesc("square_x_sum", 0) != sums)
        return Error::ShapeMismatch() << "y is " << ctx->InputTensorDesc("y", 0).toString() << " and square_x_sum "
                                      << ctx->InputTensorDesc("square_x_sum", 0).toString() << ", expected "
                                      << dy.toString() << " and " << sums.toString();
      *ctx->MutOutputTensorDesc("dx", 0) = dy;
      return Maybe<void>::Ok();
    })
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("dy", 0).shape().NumAxes();
      const int64_t axis = JUST(resolveAxis(ctx->Attr<int32_t>("axis"), rank));
      for (int64_t i = 0; i < rank; ++i)
        if (i != axis) ctx->NewBuilder().Split(ctx->inputs(), i).Split(ctx->outputs(), i).Build();
      addLinearSignature(ctx, {"dy"});
      return Maybe<void>::Ok();
    })
    .Doc("The gradient of l2_normalize: dx = (dy - y * sum(y * dy)) / sqrt(square_x_sum), the sum along `axis`; "
         "where square_x_sum is below epsilon, dx = dy / sqrt(epsilon).")
    .Cases({Case("rows")
                .In("dy", {3, 17})
                .In("y", {3, 17})
                .In("square_x_sum", {3, 1}, 1, 9)
                .Attr("axis", int32_t{1})
                .Attr("epsilon", 1e-10f),
            Case("channels")
                .In("dy", {2, 3, 5})
                .In("y", {2, 3, 5})
                .In("square_x_sum", {2, 1, 5}, 0, 2)
                .Attr("axis", int32_t{1})
                .Attr("epsilon", 0.5f)});
OPC_REGISTER_FLOATING_CPU_KERNELS("l2_normalize_grad", L2NormalizeGradKernel, "dy");

} // namespace
} // namespace opc::ops
