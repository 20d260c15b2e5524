// CPU kernels of matmul, batch_matmul and broadcast_matmul: one prepared Gemm.
// SPDX-License-Identifier: Apache-2.0
#include "Gemm.h"
#include "opc/PackedInputs.h"
#include "support/RegisterFloating.h"

#include <algorithm>
#include <cstring>

namespace opc::ops {
namespace {

using namespace opc::cpu;

/// Offsets of the matrices of each product of a broadcast batch.
std::vector<int64_t> offsetsOf(const Shape &operand, const Shape &out) {
  const int64_t rank = out.NumAxes() - 2, own = operand.NumAxes() - 2;
  const int64_t matrix = operand.At(own) * operand.At(own + 1);
  std::vector<int64_t> offsets(1, 0);
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t axis = i - (rank - own);
    const int64_t step = axis >= 0 && operand.At(axis) != 1 ? operand.Count(axis + 1, own) * matrix : 0;
    std::vector<int64_t> next;
    next.reserve(offsets.size() * static_cast<size_t>(out.At(i)));
    for (int64_t o : offsets)
      for (int64_t j = 0; j < out.At(i); ++j) next.push_back(o + j * step);
    offsets = std::move(next);
  }
  return offsets;
}

template <class T> class MatmulKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const Shape &a = ctx->TensorDesc4ArgNameAndIndex("a", 0)->shape();
    const Shape &b = ctx->TensorDesc4ArgNameAndIndex("b", 0)->shape();
    const Shape &out = ctx->TensorDesc4ArgNameAndIndex("out", 0)->shape();
    GemmShape shape;
    shape.transA = ctx->Attr<bool>("transpose_a");
    shape.transB = ctx->Attr<bool>("transpose_b");
    shape.alpha = ctx->Attr<double>("alpha");
    shape.accumulate = ctx->has_input("_add_to_output", 0);
    shape.m = out.At(out.NumAxes() - 2);
    shape.n = out.At(out.NumAxes() - 1);
    shape.k = a.At(a.NumAxes() - (shape.transA ? 2 : 1));
    GemmBatch batch;
    const int64_t aMatrices = a.Count(0, a.NumAxes() - 2), outMatrices = out.Count(0, out.NumAxes() - 2);
    if (b.Count(0, b.NumAxes() - 2) == 1 && aMatrices == outMatrices && !shape.transA) {
      shape.m *= outMatrices; // one tall product
    } else {
      batch.a = offsetsOf(a, out);
      batch.b = offsetsOf(b, out);
      batch.c.clear();
      for (int64_t i = 0; i < outMatrices; ++i) batch.c.push_back(i * shape.m * shape.n);
    }
    StagedTensors<T> tensors(ctx);
    const T *pa = tensors.in("a"), *pb = tensors.in("b"), *add = tensors.in("_add_to_output");
    T *c = tensors.out("out");
    Gemm<T> gemm(shape, std::move(batch), ctx->isConstant("b", 0) ? pb : nullptr);
    if (gemm.hasPackedB()) user_op::notePackedInput(ctx, "b");
    const int64_t count = out.elem_cnt();
    return user_op::bindTask([=, tensors = std::move(tensors), gemm = std::move(gemm)](DeviceCtx *d) {
      tensors.load(d);
      if (add && add != c) std::memcpy(c, add, static_cast<size_t>(count) * sizeof(T));
      gemm.run(d, pa, pb, c);
      tensors.store(d);
    });
  }
};

#define OPC_REGISTER_MATMUL(op)                                                                                        \
  OPC_REGISTER_FLOATING_CPU_KERNELS(op, MatmulKernel, "out");                                                          \
  OPC_REGISTER_CPU_KERNEL(op, MatmulKernel<int32_t>, "out", kInt32)

OPC_REGISTER_MATMUL("matmul");
OPC_REGISTER_MATMUL("batch_matmul");
OPC_REGISTER_MATMUL("broadcast_matmul");

} // namespace
} // namespace opc::ops
