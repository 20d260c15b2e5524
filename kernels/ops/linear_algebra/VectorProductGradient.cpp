// Gradient rules of matrix_vector_product, vector_matrix_product and dot.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

/// The outer product of two vectors.
std::string outer(GradientRule &g, const std::string &a, int64_t m, const std::string &b, int64_t n,
                  const std::string &suffix) {
  const std::string column = g.add("reshape", suffix + "_column").in("in", a).attr("shape", Shape{m, 1}).out();
  const std::string row = g.add("reshape", suffix + "_row").in("in", b).attr("shape", Shape{1, n}).out();
  return binary(g, "broadcast_mul", column, row, suffix);
}

void matrixVectorGradient(GradientRule &g) {
  const Shape &a = g.shape("a");
  if (g.needs("a")) g.bind("a", outer(g, g.dy("out"), a.At(0), g.x("b"), a.At(1), "a"));
  if (g.needs("b")) g.bind("b", g.add("vector_matrix_product", "b").in("a", g.dy("out")).in("b", g.x("a")).out());
}
REGISTER_USER_OP_GRAD("matrix_vector_product").SetBackwardOpConfGenFn(gradientRule(matrixVectorGradient));

void vectorMatrixGradient(GradientRule &g) {
  const Shape &b = g.shape("b");
  if (g.needs("a")) g.bind("a", g.add("matrix_vector_product", "a").in("a", g.x("b")).in("b", g.dy("out")).out());
  if (g.needs("b")) g.bind("b", outer(g, g.x("a"), b.At(0), g.dy("out"), b.At(1), "b"));
}
REGISTER_USER_OP_GRAD("vector_matrix_product").SetBackwardOpConfGenFn(gradientRule(vectorMatrixGradient));

void dotGradient(GradientRule &g) {
  if (g.needs("x")) g.bind("x", binary(g, "broadcast_mul", g.x("y"), g.dy("out"), "x"));
  if (g.needs("y")) g.bind("y", binary(g, "broadcast_mul", g.x("x"), g.dy("out"), "y"));
}
REGISTER_USER_OP_GRAD("dot").SetBackwardOpConfGenFn(gradientRule(dotGradient));

} // namespace
} // namespace opc::ops
