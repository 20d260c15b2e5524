// Between the SDK's values and MLIR's: attributes, tensor types, op configurations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"
#include "OpcDialect.h"

namespace opc::ir {

/// The inverse of fromMlir() (OpcDialect.h).
mlir::Attribute toMlir(mlir::MLIRContext *ctx, const AttrValue &value);

/// The element type for a tensor dtype; null for types that tensors cannot have.
mlir::Type elementType(mlir::MLIRContext *ctx, DataType type);
DataType dataType(mlir::Type elementType);
mlir::Type tensorType(mlir::MLIRContext *ctx, const user_op::TensorDesc &desc);
/// The descriptor of a ranked tensor type; -1 for a dynamic dimension. False for unresolved types.
bool describe(mlir::Type type, user_op::TensorDesc *desc);
/// The same of a type that is known.
user_op::TensorDesc descOf(mlir::Type type);
inline user_op::TensorDesc descOf(mlir::Value v) { return descOf(v.getType()); }
/// Its size; 0 while it is not known.
int64_t bytesOf(mlir::Value v);

/// The op's configuration, with tensor names from locations (see Locations.h).
user_op::OpConf toOpConf(UserOp op);
/// An instance with input descriptors (and, when resolved, output descriptors) from the op's types.
/// Null when an operand is not resolved.
std::unique_ptr<OpInstance> toInstance(UserOp op, const user_op::OpDef &def);

/// A dense attribute over raw little-endian bytes, and its bytes.
mlir::DenseElementsAttr denseFromBytes(mlir::RankedTensorType type, llvm::ArrayRef<char> bytes);
std::string denseToBytes(mlir::DenseElementsAttr attr);

} // namespace opc::ir
