// cumprod_grad and reduce_prod_grad: gradients of products, exact where factors are zero.
// SPDX-License-Identifier: Apache-2.0
#include "StagedTensors.h"
#include "reduce/ReduceOp.h"
#include "support/RegisterFloating.h"
#include "support/Walk.h"

namespace opc::ops::reduce {
namespace {

using cpu::StagedTensors;

// --- cumprod_grad ----------------------------------------------------------------------------------------------------

Maybe<void> inferCumprod(InferContext *ctx) {
  const TensorDesc x = ctx->InputTensorDesc("input", 0);
  JUST(resolveAxis(ctx->Attr<int64_t>("dim"), x.shape().NumAxes(), "dim"));
  for (const char *arg : {"dy", "output"})
    if (ctx->InputTensorDesc(arg, 0) != x)
      return Error::ShapeMismatch() << arg << " is " << ctx->InputTensorDesc(arg, 0).toString() << ", expected "
                                    << x.toString() << ", the type of input";
  *ctx->MutOutputTensorDesc("dx", 0) = x;
  return Maybe<void>::Ok();
}

/// One line: dx[k] = sum over i >= k of dy[i] * product over j <= i, j != k of x[j]. Before the first zero z that is
/// (sum over k <= i < z of dy[i] y[i]) / x[k]; at z the products run up to the next zero; behind it all is 0.
template <class T> void cumprodLine(const T *dy, const T *y, const T *x, T *dx, int64_t n, int64_t step) {
  int64_t zero = 0;
  while (zero < n && x[zero * step] != T(0)) ++zero;
  double sum = 0;
  for (int64_t k = zero; k-- > 0;) {
    sum += static_cast<double>(dy[k * step]) * static_cast<double>(y[k * step]);
    dx[k * step] = static_cast<T>(sum / static_cast<double>(x[k * step]));
  }
  if (zero == n) return;
  double product = zero == 0 ? 1.0 : static_cast<double>(y[(zero - 1) * step]);
  sum = static_cast<double>(dy[zero * step]) * product;
  for (int64_t i = zero + 1; i < n && product != 0; ++i) {
    product *= static_cast<double>(x[i * step]);
    sum += static_cast<double>(dy[i * step]) * product;
  }
  dx[zero * step] = static_cast<T>(sum);
  for (int64_t k = zero + 1; k < n; ++k) dx[k * step] = T(0);
}

template <class T> class CumprodGradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Shape shape = ctx->TensorDesc4ArgNameAndIndex("input", 0)->shape();
    const int64_t axis = valueOf(resolveAxis(ctx->Attr<int64_t>("dim"), shape.NumAxes()));
    const int64_t n = shape.At(axis), inner = shape.Count(axis + 1), lines = shape.Count(0, axis) * inner;
    StagedTensors<T> staged(ctx);
    const T *dy = staged.in("dy"), *y = staged.in("output"), *x = staged.in("input");
    T *dx = staged.out("dx");
    return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
      staged.load(dev);
      dev->parallelFor(lines, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, n)), [&](int64_t b, int64_t e) {
        for (int64_t l = b; l < e; ++l) {
          const int64_t at = l / inner * n * inner + l % inner;
          cumprodLine(dy + at, y + at, x + at, dx + at, n, inner);
        }
      });
      staged.store(dev);
    });
  }
};

user_op::Case cumprodCase(const char *name, Shape s, int64_t dim, double lo, double hi) {
  return user_op::Case(name).In("dy", s).In("output", s, lo, hi).In("input", s, lo, hi).Attr("dim", dim);
}

REGISTER_USER_OP("cumprod_grad")
    .Input("dy")
    .Input("output")
    .Input("input")
    .Output("dx")
    .RequiredAttr<int64_t>("dim")
    .SetTensorDescInferFn(inferCumprod)
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("input", 0).shape().NumAxes();
      const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("dim"), rank, "dim"));
      for (int64_t a = 0; a < rank; ++a)
        if (a != axis) ctx->NewBuilder().Split(ctx->inputs(), a).Split(ctx->outputs(), a).Build();
      return Maybe<void>::Ok();
    })
    .Doc(
        "The gradient of output = cumprod of input along `dim`: dx[k] = sum over i >= k of dy[i] * product over j <= "
        "i, "
        "j != k of\n"
        "input[j], in linear time: dy[i] * output[i] summed from the end, divided by input[k], up to the first zero of "
        "input; at\n"
        "that zero the products that leave it out; behind it 0. Sums run in f64.")
    .Cases({cumprodCase("rows", {3, 7}, 1, 0.5, 1.5), cumprodCase("middle", {2, 5, 3}, -2, 0.5, 1.5)});
OPC_REGISTER_FLOATING_CPU_KERNELS("cumprod_grad", CumprodGradKernel, "dy");

// --- reduce_prod_grad ------------------------------------------------------------------------------------------------

Maybe<void> inferProd(InferContext *ctx) {
  const TensorDesc x = ctx->InputTensorDesc("x", 0), dy = ctx->InputTensorDesc("dy", 0);
  const auto axes = JUST(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), x.shape().NumAxes()));
  const TensorDesc want(reducedShape(x.shape(), axes, true), x.data_type());
  if (dy != want)
    return Error::ShapeMismatch() << "dy is " << dy.toString() << ", expected " << want.toString()
                                  << ", the shape of x with 1 for the reduced axes";
  *ctx->MutOutputTensorDesc("dx", 0) = x;
  return Maybe<void>::Ok();
}

/// For each output: the product of the factors that are not 0, and how many are. With none, dx = dy p / x; with one, it
/// alone has a gradient, dy p; with more, nothing has.
template <class T> class ProdGradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Shape shape = ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape();
    const auto axes = valueOf(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), shape.NumAxes()));
    const DimVector strides = rowMajorStrides(shape);
    std::vector<StridedDim> kept, reduced;
    int64_t outputs = 1, count = 1;
    for (int64_t a = 0; a < shape.NumAxes(); ++a) {
      const bool isReduced = std::binary_search(axes.begin(), axes.end(), a);
      (isReduced ? reduced : kept).push_back({shape.At(a), strides[static_cast<size_t>(a)]});
      (isReduced ? count : outputs) *= shape.At(a);
    }
    StagedTensors<T> staged(ctx);
    const T *x = staged.in("x"), *dy = staged.in("dy");
    T *dx = staged.out("dx");
    return user_op::bindTask([=, staged = std::move(staged)](DeviceCtx *dev) {
      staged.load(dev);
      if (outputs * count > 0)
        dev->parallelFor(outputs, std::max<int64_t>(1, 8192 / count), [&](int64_t b, int64_t e) {
          Walk at(kept, b);
          for (int64_t o = b; o < e; ++o, at.next()) {
            double product = 1;
            int64_t zeros = 0;
            Walk r(reduced, 0);
            for (int64_t i = 0; i < count; ++i, r.next()) {
              const double v = static_cast<double>(x[at.offset + r.offset]);
              if (v == 0)
                ++zeros;
              else
                product *= v;
            }
            const double share = zeros > 1 ? 0.0 : static_cast<double>(dy[o]) * product;
            Walk w(reduced, 0);
            for (int64_t i = 0; i < count; ++i, w.next()) {
              const double v = static_cast<double>(x[at.offset + w.offset]);
              dx[at.offset + w.offset] = static_cast<T>(zeros == 0 ? share / v : v == 0 ? share : 0.0);
            }
          }
        });
      staged.store(dev);
    });
  }
};

user_op::Case prodCase(const char *name, Shape x, Shape dy, std::vector<int32_t> axis) {
  return user_op::Case(name).In("x", x, 0.5, 1.5).In("dy", dy).Attr("axis", axis);
}

REGISTER_USER_OP("reduce_prod_grad")
    .Input("x")
    .Input("dy")
    .Output("dx")
    .RequiredAttr<std::vector<int32_t>>("axis")
    .SetTensorDescInferFn(inferProd)
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape().NumAxes();
      const auto axes = JUST(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), rank));
      for (int64_t a = 0; a < rank; ++a)
        if (!std::binary_search(axes.begin(), axes.end(), a))
          ctx->NewBuilder().Split(ctx->inputs(), a).Split(ctx->outputs(), a).Build();
      return Maybe<void>::Ok();
    })
    .Doc("The gradient of reduce_prod over the axes in `axis`, which dy has with size 1: dx = dy times the product of "
         "the other\n"
         "factors, right also where factors are 0. Products run in f64.")
    .Cases({prodCase("rows", {4, 7}, {4, 1}, {1}), prodCase("outer", {3, 4, 2}, {1, 4, 1}, {0, -1}),
            prodCase("none", {2, 3}, {2, 3}, {})});
OPC_REGISTER_FLOATING_CPU_KERNELS("reduce_prod_grad", ProdGradKernel, "x");

} // namespace
} // namespace opc::ops::reduce
