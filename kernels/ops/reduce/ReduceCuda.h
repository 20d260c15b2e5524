// The host side of reductions on GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reduce/ReduceArguments.h"
#include "support/CudaTask.h"
#include "support/Operator.h"

namespace opc::ops::reduce {

/// `in` over `axes` (resolved, sorted), each result at its place in `out`. The divisor is for the caller.
ReduceArguments reduceArguments(const Tensor &in, Tensor &out, const std::vector<int64_t> &axes);
/// Kernel "NAME_rows_TYPE", a block for each result, or "NAME_columns_TYPE", a thread for each, whichever fits how the
/// elements lie.
std::unique_ptr<BoundKernel> bindReduction(KernelBindContext *ctx, const std::string &name, DataType type,
                                           const ReduceArguments &a);

/// Sums over whole tensors: kernel "NAME_parts_TYPE" over each of `x` (and `y`, if not null), and the sum of all parts.
std::unique_ptr<BoundKernel> bindWholeSum(KernelBindContext *ctx, const std::string &name,
                                          const std::vector<const Tensor *> &x, const Tensor *y, Tensor &out);
/// Room for the parts of inputs `arg`.
size_t wholeSumSize(InferContext *ctx, const char *arg);

} // namespace opc::ops::reduce
