// Products of matrices of 8-bit integers: their sizes and their task.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "IntegerOperands.h"

namespace opc::ops {

struct MatrixSizes {
  DimVector batch;
  int64_t m, k, n;
};

/// Of a[..., m, k] and b[..., k, n], whose leading dimensions broadcast.
Maybe<MatrixSizes> matrixSizes(const TensorDesc &a, const TensorDesc &b, bool transB);
/// Checks a, b, their zero points and the bias, and says what out is.
Maybe<MatrixSizes> inferIntegerProduct(InferContext *ctx, DataType out);
std::unique_ptr<BoundKernel> bindIntegerProduct(KernelBindContext *ctx, const cpu::SumFinish &finish);

} // namespace opc::ops
