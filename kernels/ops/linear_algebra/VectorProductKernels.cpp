// CPU kernels of matrix_vector_product, vector_matrix_product and dot.
// SPDX-License-Identifier: Apache-2.0
#include "Gemm.h"
#include "support/RegisterFloating.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;

/// Both are matrix products with one side of one row or column.
template <class T> class VectorProductKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape &a = ctx->TensorDesc4ArgNameAndIndex("a", 0)->shape();
    const Shape &b = ctx->TensorDesc4ArgNameAndIndex("b", 0)->shape();
    GemmShape shape;
    shape.m = a.NumAxes() == 2 ? a.At(0) : 1;
    shape.n = b.NumAxes() == 2 ? b.At(1) : 1;
    shape.k = b.At(0);
    StagedTensors<T> tensors(ctx);
    const T *pa = tensors.in("a"), *pb = tensors.in("b");
    T *c = tensors.out("out");
    Gemm<T> gemm(shape, GemmBatch(), ctx->isConstant("b", 0) ? pb : nullptr);
    return user_op::bindTask([=, tensors = std::move(tensors), gemm = std::move(gemm)](DeviceCtx *d) {
      tensors.load(d);
      gemm.run(d, pa, pb, c);
      tensors.store(d);
    });
  }
};

/// Long vectors are cut into pieces of fixed length, summed apart and added in order: the same sum on any number of
/// threads.
template <class T> class DotKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    constexpr int64_t kPiece = 32768;
    const int64_t k = ctx->TensorDesc4ArgNameAndIndex("x", 0)->shape().At(0);
    const int64_t pieces = k / kPiece, rest = k % kPiece;
    StagedTensors<T> tensors(ctx);
    const T *x = tensors.in("x"), *y = tensors.in("y");
    T *out = tensors.out("out");
    Gemm<T> piece(GemmShape{1, 1, kPiece}, GemmBatch()), last(GemmShape{1, 1, rest}, GemmBatch());
    Scratch<T> sums(pieces + 1);
    return user_op::bindTask([=, tensors = std::move(tensors), piece = std::move(piece), last = std::move(last),
                              sums = std::move(sums)](DeviceCtx *d) {
      tensors.load(d);
      DeviceCtx one;
      d->parallelFor(pieces, 1, [&](int64_t begin, int64_t end) {
        DeviceCtx alone;
        for (int64_t i = begin; i < end; ++i) piece.run(&alone, x + i * kPiece, y + i * kPiece, sums.get() + i);
      });
      last.run(&one, x + pieces * kPiece, y + pieces * kPiece, sums.get() + pieces);
      T sum = 0;
      for (int64_t i = 0; i <= pieces; ++i) sum += sums.get()[i];
      *out = sum;
      tensors.store(d);
    });
  }
};

#define OPC_REGISTER_VECTOR_PRODUCT(op, Kernel)                                                                        \
  OPC_REGISTER_FLOATING_CPU_KERNELS(op, Kernel, "out");                                                                \
  OPC_REGISTER_CPU_KERNEL(op, Kernel<int32_t>, "out", kInt32)

OPC_REGISTER_VECTOR_PRODUCT("matrix_vector_product", VectorProductKernel);
OPC_REGISTER_VECTOR_PRODUCT("vector_matrix_product", VectorProductKernel);
OPC_REGISTER_VECTOR_PRODUCT("dot", DotKernel);

} // namespace
} // namespace opc::ops
