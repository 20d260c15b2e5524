// Making `opc.user_op`s.
// SPDX-License-Identifier: Apache-2.0
#include "UserOpBuilder.h"

using namespace mlir;

namespace opc::ir {

UserOpBuilder::UserOpBuilder(OpBuilder &builder, const user_op::OpConf &conf, ValueRange operands, TypeRange results)
    : b_(builder), type_(conf.type), operands_(operands), results_(results) {
  auto add = [&](const user_op::ArgBinding &b, Args *args) {
    args->names.push_back(b_.getStringAttr(b.name));
    args->sizes.push_back(static_cast<int32_t>(b.tensors.size()));
  };
  for (const user_op::ArgBinding &b : conf.inputs) add(b, &ins_);
  for (const user_op::ArgBinding &b : conf.outputs) add(b, &outs_);
  for (const auto &[name, value] : conf.attrs) attrs_.append(name, toMlir(b_.getContext(), value)); // each is new
}

UserOpBuilder &UserOpBuilder::in(StringRef arg, Value v) {
  if (!v) return *this;
  operands_.push_back(v);
  ins_.names.push_back(b_.getStringAttr(arg));
  ins_.sizes.push_back(1);
  return *this;
}

UserOpBuilder &UserOpBuilder::attrsOf(UserOp other, ArrayRef<StringRef> names) {
  for (StringRef n : names)
    if (Attribute a = other.getOpAttrs().get(n)) attrs_.set(n, a);
  return *this;
}

UserOp UserOpBuilder::make(Location loc) {
  return UserOp::create(b_, loc, results_, operands_, b_.getStringAttr(type_), b_.getArrayAttr(ins_.names),
                        b_.getDenseI32ArrayAttr(ins_.sizes), b_.getArrayAttr(outs_.names),
                        b_.getDenseI32ArrayAttr(outs_.sizes), attrs_.getDictionary(b_.getContext()),
                        RoleAttr::get(b_.getContext(), role_), DeviceAttr());
}

UserOp UserOpBuilder::make(Location loc, StringRef output, Type type) {
  outs_ = {{b_.getStringAttr(output)}, {1}};
  results_ = {type};
  return make(loc);
}

} // namespace opc::ir
