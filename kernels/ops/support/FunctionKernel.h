// A kernel that is a function: for families in which several kernels are one function with other parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

namespace opc::ops {

/// The kernel whose Bind is `bind(ctx)`.
template <auto bind> class FunctionKernel final : public user_op::BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override { return bind(ctx); }
};

} // namespace opc::ops
