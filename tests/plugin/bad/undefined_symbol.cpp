// A library that needs a function which nobody defines.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Op.h"

void computedElsewhere(opc::user_op::KernelComputeContext *);

namespace {
class Kernel final : public opc::user_op::OpKernel {
  void Compute(opc::user_op::KernelComputeContext *ctx) const override { computedElsewhere(ctx); }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};
REGISTER_USER_KERNEL("myrelu").SetCreateFn<Kernel>();
} // namespace
