// opc dialect -> graph protobuf, and the canonical text of a graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"

#include "graph.pb.h"
#include "opc/Attr.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <string>
#include <vector>

namespace opc {

/// Whether a graph file can hold a constant: all its elements are equal.
bool fitsGraphFile(mlir::DenseElementsAttr constant);
/// The attributes of the op `constant` that a graph file has in the place of one that fits.
std::map<std::string, AttrValue> constantAttributes(ir::ConstantOp op);

/// The graph as messages. Constants become `constant` ops when all elements are equal; others cannot be written as a
/// graph, and `error` then says so (emit before simplification, or make them variables: Pipeline::keepConstants).
bool toGraph(mlir::ModuleOp module, graph::Job *job, std::string *error);

/// What of a model has become part of its ops (graph.proto).
std::vector<graph::ModelNumber> modelNumbersOf(mlir::ModuleOp module);

/// Canonical text: a list of ops, or a Job when the graph came with one. Fields in number order, map entries sorted by
/// key, the shortest floats that read back the same, small messages on one line. Reading it back and writing it again
/// gives the same bytes.
std::string canonicalText(const graph::Job &job);

} // namespace opc
