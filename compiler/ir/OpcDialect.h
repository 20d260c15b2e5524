// The opc dialect's C++ classes.
#pragma once

#include "Registry.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "OpcDialect.h.inc"

namespace opc::ir {
/// On an opc.user_op: the names of the ops that must run before it (OperatorConf.ctrl_in_op_name).
constexpr llvm::StringLiteral kCtrlInAttr = "opc.ctrl_in";
/// On an opc.user_op: another op's `opc.ctrl_in` names it, so it stays and keeps its name.
constexpr llvm::StringLiteral kOrderedAttr = "opc.ordered";
} // namespace opc::ir

#define GET_TYPEDEF_CLASSES
#include "OpcTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "OpcAttrs.h.inc"

#define GET_OP_CLASSES
#include "OpcOps.h.inc"
