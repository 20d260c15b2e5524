// What an exported model says of the op that several of its nodes were written from, and whether that is so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxEmission.h"
#include "StoredTensor.h"

#include "opc/OpConf.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace opc::onnx_export {

/// The op of a group of nodes. Its tensors are called as the model's values are.
struct OpNote {
  user_op::OpConf conf;
  size_t nodes = 0; // how many it has become, but for constants
};

/// Lets the first node of an op say what it is: an entry of its metadata, in the words of a graph file.
void setOpNote(const OpNote &note, onnx::Node *first);
/// Nothing where there is no such entry, or none that can be read. The name in `conf` is
/// what the names of its nodes begin with.
std::optional<OpNote> opNoteOf(const onnx::Node &first);

/// What a model's nodes are compared with.
struct NodesAround {
  /// The constant of this name; null where there is none.
  std::function<const StoredTensor *(const std::string &)> constant;
  /// The type and shape of a value that the op reads; nothing where it has none.
  std::function<std::optional<Wire>(const std::string &)> read;
  int64_t opset = 0;
};

/// Whether these nodes, in their order, are what exporting the op writes, names of values within them aside: only then
/// does a note say the truth, whoever has changed the model since. `outputs` gets the values that the op makes, in the
/// order of its outputs.
bool isWrittenSo(const OpNote &note, const std::vector<const onnx::Node *> &nodes, const NodesAround &around,
                 const Registry &registry, std::vector<std::string> *outputs);

} // namespace opc::onnx_export
