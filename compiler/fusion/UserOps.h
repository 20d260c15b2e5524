// Reading and making `opc.user_op`s by argument name, for rewrites that know an operator.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "AttrBridge.h"
#include "Locations.h"
#include "OpcDialect.h"

#include "mlir/IR/Builders.h"

namespace opc {

/// The operand of an argument; null when the op does not have it.
inline mlir::Value operandOf(ir::UserOp op, llvm::StringRef name, int32_t index = 0) {
  unsigned at = 0;
  for (auto [n, size] : llvm::zip(op.getInputNames(), op.getInputSizes())) {
    if (llvm::cast<mlir::StringAttr>(n).getValue() == name)
      return index < size ? op.getArgs()[at + static_cast<unsigned>(index)] : mlir::Value();
    at += static_cast<unsigned>(size);
  }
  return {};
}

/// The op of type `type` that alone reads `v`; null when there is none, or when somebody else reads `v`.
inline ir::UserOp onlyReader(mlir::Value v) {
  return v.hasOneUse() ? llvm::dyn_cast<ir::UserOp>(*v.user_begin()) : ir::UserOp();
}

/// An attribute as T, or `byDefault` when the op does not carry it.
template <class T> T attributeOf(ir::UserOp op, llvm::StringRef name, T byDefault) {
  mlir::Attribute a = op.getOpAttrs().get(name);
  if (!a) return byDefault;
  const AttrValue value = ir::fromMlir(a);
  const T *found = std::get_if<T>(&value.variant());
  return found ? *found : byDefault;
}

/// Collects the parts of a new op, arguments in the order of the operator's definition.
class UserOpMaker {
public:
  UserOpMaker(mlir::OpBuilder &builder, llvm::StringRef type) : b_(builder), type_(type) {}
  /// Null values are left out.
  UserOpMaker &in(llvm::StringRef name, mlir::Value v) {
    if (!v) return *this;
    args_.push_back(v);
    names_.push_back(b_.getStringAttr(name));
    sizes_.push_back(1);
    return *this;
  }
  UserOpMaker &attr(llvm::StringRef name, mlir::Attribute value) { return attrs_.set(name, value), *this; }
  UserOpMaker &attr(llvm::StringRef name, const AttrValue &value) {
    return attr(name, ir::toMlir(b_.getContext(), value));
  }
  /// Those attributes of another op that the definition of the new one has, too.
  UserOpMaker &attrsOf(ir::UserOp other, llvm::ArrayRef<llvm::StringRef> names) {
    for (llvm::StringRef n : names)
      if (mlir::Attribute a = other.getOpAttrs().get(n)) attrs_.set(n, a);
    return *this;
  }
  ir::UserOp make(mlir::Location loc, llvm::StringRef output, mlir::Type type) {
    return ir::UserOp::create(b_, loc, mlir::TypeRange(type), args_, b_.getStringAttr(type_), b_.getArrayAttr(names_),
                              b_.getDenseI32ArrayAttr(sizes_), b_.getStrArrayAttr({output}),
                              b_.getDenseI32ArrayAttr({1}), attrs_.getDictionary(b_.getContext()));
  }

private:
  mlir::OpBuilder &b_;
  llvm::StringRef type_;
  llvm::SmallVector<mlir::Value> args_;
  llvm::SmallVector<mlir::Attribute> names_;
  llvm::SmallVector<int32_t> sizes_;
  mlir::NamedAttrList attrs_;
};

/// The location of an op that takes the place of the one that made `v`: its name, its range, and the tensor's name.
inline mlir::Location locationFor(mlir::Value v) {
  ir::OpLocation parts = ir::readLocation(v.getLoc());
  parts.tensors = {ir::tensorName(v)};
  return ir::makeLocation(v.getContext(), parts);
}

} // namespace opc
