// Adds ops to the end of a graph by configuration: completes, names, checks, infers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"
#include "OpcDialect.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <unordered_map>
#include <unordered_set>

namespace opc {

/// What gradient and training-graph generation make ops with. One builder serves a whole generation: it knows every
/// name in the graph.
class GraphBuilder {
public:
  GraphBuilder(mlir::ModuleOp module, const Registry &registry);

  /// `name`, or `name` with a number behind it when an op has that name already. Reserves it.
  std::string uniqueName(const std::string &name);
  mlir::Value findTensor(const std::string &tensor) const;
  /// The name under which findTensor() knows a value.
  std::string nameOf(mlir::Value v) const;

  /// Adds a user op. Its name is made unique; output tensors follow it. Operands are looked up by tensor name. The
  /// location is that of `origin` (null: none) under the new name, and a backward op's `opc.gradient_of` names it.
  /// `conf` comes back completed.
  Status addOp(user_op::OpConf *conf, mlir::Operation *origin, ir::UserOp *made = nullptr);
  /// The same for one output, which is returned.
  Result<mlir::Value> add(user_op::OpConf conf, mlir::Operation *origin);

  /// A variable that is not trained.
  mlir::Value addVariable(const std::string &name, const user_op::TensorDesc &desc, ir::InitializerAttr initializer);
  /// An input op called `name` (made unique).
  mlir::Value addInput(const std::string &name, mlir::Type type);
  /// Returns the output op's name.
  std::string addOutput(const std::string &name, mlir::Value v);
  /// Learns the ops that others have added since.
  void refresh();
  const Registry &registry() const { return registry_; }

  /// What new ops are for.
  ir::Role role = ir::Role::kBackward;

private:
  mlir::Location named(const std::string &name) const;
  void know(mlir::Operation *op);

  mutable mlir::ModuleOp module_;
  const Registry &registry_;
  mlir::OpBuilder builder_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, mlir::Value> tensors_;
};

/// An argument with its tensors.
user_op::ArgBinding bindTensor(const std::string &arg, const std::string &tensor);

} // namespace opc
