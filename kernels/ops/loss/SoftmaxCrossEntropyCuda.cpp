// The cross entropies of a softmax and their gradients on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "loss/LossRows.h"
#include "support/CudaTask.h"
#include "support/IndexWatch.h"
#include "support/PieceRange.h"

namespace opc::ops::loss {
namespace {

/// A warp for each row; with labels, which are checked, where those are of integers.
std::unique_ptr<BoundKernel> bindRowsOf(KernelBindContext *ctx, const char *classes, DataType type, const void *a,
                                        const void *b, void *c, void *d) {
  const Shape &shape = ctx->In(classes).shape(), &labels = ctx->In("label").shape();
  const int64_t n = classesOf(shape), rows = rowsOf(shape).elem_cnt();
  const std::string kernel = kernelOf(ctx->op_type_name(), type);
  if (labels.NumAxes() == shape.NumAxes()) return bindWarps(ctx, kernel, rows, a, b, c, d, rows, n);
  const PieceRange piece = pieceRange(ctx, classes, shape.NumAxes() - 1);
  return bindWarps(ctx, kernelOf(kernel, ctx->In("label").data_type()), rows, a, b, c, d, rows, n, piece.begin,
                   piece.whole, watchIndices(ctx, "label", labels, piece.whole, "the classes"));
}

template <class T> class CrossEntropyCuda final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    return bindRowsOf(ctx, "prediction", GetDataType<T>::value, ctx->In("prediction").raw_dptr(),
                      ctx->In("label").raw_dptr(), ctx->Out("prob").mut_raw_dptr(), ctx->Out("out").mut_raw_dptr());
  }
};

template <class T> class CrossEntropyGradCuda final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    return bindRowsOf(ctx, "prob", GetDataType<T>::value, ctx->In("label").raw_dptr(), ctx->In("dy").raw_dptr(),
                      const_cast<void *>(ctx->In("prob").raw_dptr()), ctx->Out("prediction_diff").mut_raw_dptr());
  }
};

const KernelOptions kOnGpu = onGpu();

REGISTER_KERNELS("sparse_softmax_cross_entropy").Kernel<CrossEntropyCuda, types::Floating>("prediction", kOnGpu);
REGISTER_KERNELS("softmax_cross_entropy").Kernel<CrossEntropyCuda, types::Floating>("prediction", kOnGpu);
REGISTER_KERNELS("sparse_softmax_cross_entropy_grad").Kernel<CrossEntropyGradCuda, types::Floating>("prob", kOnGpu);
REGISTER_KERNELS("softmax_cross_entropy_grad").Kernel<CrossEntropyGradCuda, types::Floating>("prob", kOnGpu);

} // namespace
} // namespace opc::ops::loss
