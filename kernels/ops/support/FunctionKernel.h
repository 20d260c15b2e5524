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
/// The same for each type of a list: .Kernel<OfFunction<bind>::Kernel, types::Floating>("x").
template <auto bind> struct OfFunction {
  template <class> using Kernel = FunctionKernel<bind>;
};

} // namespace opc::ops
