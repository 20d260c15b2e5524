// The rules of a manifest's operator: shapes, gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "KernelHost.h"
#include "op_manifest.pb.h"

#include <memory>

namespace opc::python {

/// The rule of shapes and element types that the manifest says: formulas, what Python has answered before, or Python.
user_op::TensorDescInferFn inferenceRule(const std::shared_ptr<const manifest::PythonOp> &op,
                                         const std::shared_ptr<const OpCode> &code);

/// The gradient rule that the manifest says.
user_op::GradDef gradientRuleOf(const std::shared_ptr<const manifest::PythonOp> &op, const user_op::Origin &origin);

/// What is wrong with the rules, or "": names of arguments that the op does not have.
std::string wrongRules(const manifest::PythonOp &op, const user_op::OpDef &def);

} // namespace opc::python
