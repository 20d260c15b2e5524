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

#define GET_TYPEDEF_CLASSES
#include "OpcTypes.h.inc"

#define GET_ATTRDEF_CLASSES
#include "OpcAttrs.h.inc"

#define GET_OP_CLASSES
#include "OpcOps.h.inc"
