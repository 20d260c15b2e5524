// The rules of a manifest's operator: shapes, gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "KernelHost.h"
#include "op_manifest.pb.h"

#include <memory>
#include <optional>
#include <string>

namespace opc::python {

/// The rule of shapes and element types that the manifest says: formulas, what Python has answered before, or Python.
user_op::TensorDescInferFn inferenceRule(const std::shared_ptr<const manifest::PythonOp> &op,
                                         const std::shared_ptr<const OpCode> &code);

/// The gradient rule that the manifest says.
user_op::GradDef gradientRuleOf(const std::shared_ptr<const manifest::PythonOp> &op, const user_op::Origin &origin);

/// A tensor in a recorded gradient rule: "x:ARG", "y:ARG", "dy:ARG", "OP:ARG", with ":2" behind where an argument has
/// several.
struct TensorName {
  std::string kind, arg;
  int32_t index = 0;
};
std::optional<TensorName> tensorNamed(const std::string &text);

/// What is wrong with the rules, or "": names that the op does not have, sizes that no tensor has, nodes that read what
/// comes later.
std::string wrongRules(const manifest::PythonOp &op, const user_op::OpDef &def);

} // namespace opc::python
