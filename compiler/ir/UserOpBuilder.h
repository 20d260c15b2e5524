// Making `opc.user_op`s.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "AttrBridge.h"
#include "OpcDialect.h"

#include "mlir/IR/Builders.h"

namespace opc::ir {

/// Collects the parts of a new op, arguments in the order of the operator's definition.
class UserOpBuilder {
public:
  UserOpBuilder(mlir::OpBuilder &builder, llvm::StringRef type) : b_(builder), type_(type) {}
  /// A completed configuration: its arguments and attributes. `operands` and `results` are those of all arguments.
  UserOpBuilder(mlir::OpBuilder &builder, const user_op::OpConf &conf, mlir::ValueRange operands,
                mlir::TypeRange results);

  /// A null value is left out.
  UserOpBuilder &in(llvm::StringRef arg, mlir::Value v);
  UserOpBuilder &attr(llvm::StringRef name, mlir::Attribute value) { return attrs_.set(name, value), *this; }
  UserOpBuilder &attr(llvm::StringRef name, const AttrValue &value) {
    return attr(name, toMlir(b_.getContext(), value));
  }
  /// Those attributes of another op that the definition of the new one has, too.
  UserOpBuilder &attrsOf(UserOp other, llvm::ArrayRef<llvm::StringRef> names);

  UserOpBuilder &role(Role role) { return role_ = role, *this; }

  UserOp make(mlir::Location loc);
  /// With one output.
  UserOp make(mlir::Location loc, llvm::StringRef output, mlir::Type type);

private:
  /// The arguments of one side: names, and how many tensors each has.
  struct Args {
    llvm::SmallVector<mlir::Attribute> names;
    llvm::SmallVector<int32_t> sizes;
  };
  mlir::OpBuilder &b_;
  std::string type_;
  llvm::SmallVector<mlir::Value> operands_;
  llvm::SmallVector<mlir::Type> results_;
  Args ins_, outs_;
  mlir::NamedAttrList attrs_;
  Role role_ = Role::kForward;
};

} // namespace opc::ir
