// Products of matrices and vectors, and biases, as ONNX.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmitters.h"

namespace opc::onnx_export {
namespace {

Wire withAddend(Emission &e, const Wire &product) {
  return e.has("_add_to_output") ? e.add(product, e.in("_add_to_output")) : product;
}

/// Numpy's matmul: a vector is a row on the left and a column on the right.
Wire product(Emission &e, const Wire &a, const Wire &b) {
  return e.matmul(a.rank() == 1 ? e.reshape(a, {1, a.dim(0)}) : a, b.rank() == 1 ? e.reshape(b, {b.dim(0), 1}) : b);
}

void convertProduct(Emission &e) {
  const Wire a = e.in("a"), b = e.in("b");
  const bool left = e.b("transpose_a"), right = e.b("transpose_b");
  const double alpha = e.f("alpha");
  if (a.rank() == 2 && b.rank() == 2 && a.isFloating() && (left || right || alpha != 1)) {
    std::vector<Wire> inputs = {a, b};
    if (e.has("_add_to_output")) inputs.push_back(e.in("_add_to_output"));
    return e.out(
        e.node("Gemm", inputs, {{"transA", left}, {"transB", right}, {"alpha", alpha}}, a.type, e.madeFirst().shape()));
  }
  const Wire made = product(e, left && a.rank() > 1 ? e.swapped(a) : a, right && b.rank() > 1 ? e.swapped(b) : b);
  e.out(withAddend(e, e.scaled(e.reshape(made, e.madeFirst().shape()), alpha)));
}

void convertGradB(Emission &e) {
  const Wire a = e.in("a"), b = e.in("b");
  const auto rows = [&](const Wire &x) {
    return e.reshape(x, {x.shape.elem_cnt() / std::max<int64_t>(x.dim(-1), 1), x.dim(-1)});
  };
  e.out(withAddend(e, e.scaled(e.matmul(e.swapped(rows(a)), rows(b)), e.f("alpha"))));
}

void convertVectors(Emission &e, const char *left, const char *right) {
  e.out(e.reshape(product(e, e.in(left), e.in(right)), e.madeFirst().shape()));
}

void convertBias(Emission &e) {
  const Wire a = e.in("a"), b = e.in("b");
  std::vector<int64_t> dims(static_cast<size_t>(a.rank()), 1);
  const int64_t axis = e.i("axis") < 0 ? e.i("axis") + a.rank() : e.i("axis");
  dims[static_cast<size_t>(axis)] = b.dim(0);
  e.out(e.add(a, axis == a.rank() - 1 ? b : e.reshape(b, dims)));
}

} // namespace

void addMatrices(EmitterTable *t) {
  for (const char *name : {"matmul", "batch_matmul", "broadcast_matmul"})
    t->add(name, Types::kNumbers, convertProduct, "MatMul, Gemm, Transpose");
  t->add("broadcast_matmul_grad_b", Types::kNumbers, convertGradB, "Reshape, Transpose, MatMul");
  for (const char *name : {"matrix_vector_product", "vector_matrix_product"})
    t->add(name, Types::kNumbers, [](Emission &e) { convertVectors(e, "a", "b"); }, "Reshape, MatMul");
  t->add("dot", Types::kNumbers, [](Emission &e) { convertVectors(e, "x", "y"); }, "Reshape, MatMul");
  t->add("bias_add", Types::kNumbers, convertBias, "Add");
}

} // namespace opc::onnx_export
