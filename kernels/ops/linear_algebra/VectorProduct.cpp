// matrix_vector_product, vector_matrix_product and dot.
// SPDX-License-Identifier: Apache-2.0
#include "MatrixProduct.h"

namespace opc::ops {
namespace {

/// Ranks, element types and the inner dimension; out has the dimensions of `a` and `b` that are left.
Maybe<void> inferProduct(InferContext *ctx, const char *nameA, int64_t rankA, const char *nameB, int64_t rankB,
                         const char *help) {
  const TensorDesc a = ctx->In(nameA), b = ctx->In(nameB);
  if (a.shape().NumAxes() != rankA || b.shape().NumAxes() != rankB)
    return Error::ShapeMismatch().help(help)
           << nameA << " must have rank " << rankA << " and " << nameB << " rank " << rankB << ": " << nameA << " is "
           << a.toString() << ", " << nameB << " is " << b.toString();
  if (a.data_type() != b.data_type()) return dtypeMismatch(nameA, a, nameB, b).help("cast one of them");
  const int64_t x = a.shape().At(rankA - 1), y = b.shape().At(0);
  if (x != y)
    return Error::ShapeMismatch() << "inner dimensions differ (" << x << " vs " << y << "): " << nameA << " is "
                                  << a.toString() << ", " << nameB << " is " << b.toString();
  DimVector dims(a.shape().begin(), a.shape().end() - 1);
  dims.insert(dims.end(), b.shape().begin() + 1, b.shape().end());
  return setOut(ctx, "out", TensorDesc(Shape(dims), a.data_type()));
}

/// Definition of a product of `a`, of rank `rankA`, and `b`.
std::function<void(OpRegistry &)> definition(const char *a, int64_t rankA, const char *b, int64_t rankB,
                                             const char *help) {
  return [=](OpRegistry &op) {
    op.Input(a).Input(b).Output("out").SetTensorDescInferFn(
        [=](InferContext *ctx) { return inferProduct(ctx, a, rankA, b, rankB, help); });
  };
}
const char *const kOthers = "matmul multiplies two matrices, dot two vectors";

/// Both are matrix products with one side of one row or column.
template <class T> class VectorProductKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const Shape &a = ctx->In("a").shape(), &b = ctx->In("b").shape();
    return bindProduct(ctx, staged, {a.NumAxes() == 2 ? a.At(0) : 1, b.NumAxes() == 2 ? b.At(1) : 1, b.At(0)});
  }
};

/// Long vectors are cut into pieces of fixed length, summed apart and added in order: the same sum on any number of
/// threads.
template <class T> class DotKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    constexpr int64_t kPiece = 32768;
    const int64_t k = ctx->In("x").shape().At(0), pieces = k / kPiece, rest = k % kPiece;
    const T *x = staged.in("x"), *y = staged.in("y");
    T *out = staged.out("out");
    cpu::Gemm<T> piece({1, 1, kPiece}, {}), last({1, 1, rest}, {});
    Scratch<T> sums(pieces + 1);
    return bindTask([=, piece = std::move(piece), last = std::move(last), sums = std::move(sums)](DeviceCtx *d) {
      d->parallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
        DeviceCtx alone;
        for (int64_t i = begin; i < end; ++i) piece.run(&alone, x + i * kPiece, y + i * kPiece, sums.get() + i);
      });
      DeviceCtx one;
      last.run(&one, x + pieces * kPiece, y + pieces * kPiece, sums.get() + pieces);
      T sum = 0;
      for (int64_t i = 0; i <= pieces; ++i) sum += sums.get()[i];
      *out = sum;
    });
  }
};

REGISTER_USER_OP("matrix_vector_product")
    .With(definition("a", 2, "b", 1, kOthers))
    .Sharding("m k, k -> m", Sum("k"), Linear({0}), Linear({1}))
    .Doc("A matrix times a vector: out[m] = sum over k of a[m,k] * b[k].")
    .Cases({Case("plain").In("a", {5, 37}, -3, 3).In("b", {37}, -3, 3), Case("one").In("a", {1, 3}).In("b", {3}),
            Case("no_terms").In("a", {3, 0}).In("b", {0})})
    .Kernel<VectorProductKernel, ProductTypes>("out");

REGISTER_USER_OP("vector_matrix_product")
    .With(definition("a", 1, "b", 2, kOthers))
    .Sharding("k, k n -> n", Sum("k"), Linear({0}), Linear({1}))
    .Doc("A vector times a matrix: out[n] = sum over k of a[k] * b[k,n].")
    .Cases({Case("plain").In("a", {37}, -3, 3).In("b", {37, 21}, -3, 3), Case("one").In("a", {3}).In("b", {3, 1}),
            Case("no_terms").In("a", {0}).In("b", {0, 3})})
    .Kernel<VectorProductKernel, ProductTypes>("out");

REGISTER_USER_OP("dot")
    .With(definition("x", 1, "y", 1, "matmul multiplies matrices"))
    .Sharding("k, k -> ", Sum("k"), Linear({0}), Linear({1}))
    .Doc("The dot product of two vectors: out = sum over k of x[k] * y[k], a scalar.")
    .Cases({Case("plain").In("x", {37}, -3, 3).In("y", {37}, -3, 3), Case("empty").In("x", {0}).In("y", {0})})
    .Kernel<DotKernel, ProductTypes>("out");

} // namespace
} // namespace opc::ops
