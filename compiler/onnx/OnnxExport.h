// Graphs -> ONNX models in ONNX's own ops (docs/onnx.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "Registry.h"
#include "StoredTensor.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opc {

constexpr int64_t kOldestExport = 17, kNewestExport = 26; // operator sets

/// A product whose second operand is a constant in blocks of 4 bits: MatMulNBits of ONNX Runtime's domain.
struct BlockProduct {
  std::string data;          // tensor: the first operand
  std::string steps, scales; // variables' tensors: u8 [columns, blocks, block / 2], f32 [columns * blocks]
  int64_t terms = 0, columns = 0, block = 0;
};

/// A graph in an op: its tensors have types and shapes.
struct InnerGraph {
  GraphFacts facts;
  std::map<std::string, StoredTensor> constants; // by tensor
};

/// What the file beside a model holds, in order: values of the request where they lie, and what was made.
using ExternalData = std::vector<StoredTensor>;

struct ExportRequest {
  /// Of the model's graph.
  std::string name;
  /// Nothing: the oldest from 17 on that has all that the graph needs.
  std::optional<int64_t> opset;
  /// By variable. A variable without a value is an input of the model.
  std::map<std::string, StoredTensor> variables;
  /// Of the graph's constants, by tensor.
  std::map<std::string, StoredTensor> constants;
  /// The graphs in ops (if, loop), and in ops of those, by their text.
  std::map<std::string, InnerGraph> graphs;
  /// By op. Of these ops the operands are written that are given here, not the graph's.
  std::map<std::string, BlockProduct> blockProducts;
  /// What the file beside the model is called that tensors over 1 MiB go to, given its bytes; none: all go into the
  /// model.
  std::function<std::string(const ExternalData &)> dataFile;
};

/// An op that cannot be written.
struct UnexportedOp {
  std::string name, type, reason;
  SourceRange range;
};

struct ExportedModel {
  std::string bytes;
  ExternalData data;
  std::string dataFile; // the name of its file
  int64_t opset = 0;
  std::vector<std::string> next;          // outputs that say what variables hold after a step
  std::map<std::string, size_t> ownNodes; // how many nodes of opc's own domain there are, by op
  std::vector<UnexportedOp> refused;      // if any, there is no model
};

/// The types and shapes of all tensors must be known. The same facts give the same bytes.
ExportedModel exportModel(const GraphFacts &facts, const Registry &registry, const ExportRequest &request);

/// How ops of opc are written: for the documents. Of an op with an expression and without an entry of its own, that; an
/// op that becomes nothing is a node of opc's own domain.
struct ExportedOp {
  std::string op, becomes, note;
};
std::vector<ExportedOp> exportedOnnxOps(const Registry &registry);

} // namespace opc
