// Ops that a library computes in one call become one op, and images keep the layout that the library likes
// (docs/adr/0006-library-fusion.md). Ops need inferred types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "AttrBridge.h"
#include "OpcDialect.h"

#include <string>
#include <vector>

namespace opc {

class Registry;

/// A graph that trains. Where it updates variables, kernels find their weights changed at every step; where it has
/// backward ops, those read the tensors in between, in the layout that they were written in.
bool trains(mlir::ModuleOp module);
/// Globs over the names of tensors that stay.
using KeptTensors = std::vector<std::string>;
/// conv2d, bias_add, normalization with stored statistics, addition of a tensor, relu or clip -> fused_conv2d (f32).
/// `winograd`: 3x3 windows may be computed by minimal filtering.
void fuseConvolutions(mlir::ModuleOp module, bool winograd, const KeptTensors &kept);
/// The same leave for conv2d and conv_data_grad of a graph that trains, whose weights change.
void filterConvolutions(mlir::ModuleOp module);
/// integer_conv2d and integer_matmul, maximum with 0, requantize or dequantize_linear -> fused_integer_conv2d,
/// fused_integer_matmul.
void fuseIntegers(mlir::ModuleOp module, const KeptTensors &kept);
/// The op with another value of an attribute.
void setAttribute(ir::UserOp op, llvm::StringRef name, const AttrValue &value);
/// Whether one of the globs fits `v`'s name.
bool isKept(mlir::Value v, const KeptTensors &kept);
/// batch_matmul of queries and keys, a factor, a mask, softmax, batch_matmul with values ->
/// scaled_dot_product_attention (f32), where there are many scores.
void fuseAttention(mlir::ModuleOp module, const Registry &registry);
/// fused_conv2d, fused_integer_conv2d, pooling and elementwise ops between them work on channels_last images;
/// transposes stand where other ops begin.
void keepChannelsLast(mlir::ModuleOp module);

} // namespace opc
