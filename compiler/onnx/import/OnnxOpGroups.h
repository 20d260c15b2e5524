// Nodes of a model that exporting one op of opc has written, which become that op again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxDraft.h"
#include "OnnxNodeOrder.h"

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace opc::onnx_export {
struct OpNote;
} // namespace opc::onnx_export

namespace opc::onnx {

/// The groups in a list of nodes, by what their first nodes say of themselves.
class OpGroups {
public:
  /// `outputs`: what leaves the list.
  OpGroups(const Nodes &nodes, const std::vector<int> &order, const google::protobuf::RepeatedPtrField<Value> &outputs);

  struct Group {
    std::string name;                    // the op's
    std::vector<int> members, constants; // indices of nodes
    size_t end = 0;                      // in the order: behind the last one
  };
  /// That which begins at this place of the order: one node after the other, constants between them, and nobody else
  /// reads what is between its nodes. Nothing where there is none.
  std::optional<Group> at(size_t place) const;

  using Find = std::function<const Term *(const std::string &)>;
  /// The op's results with their names. Nothing where the nodes are not those of the op, or stand for more than it.
  std::optional<std::vector<std::pair<std::string, Term>>> restored(const Group &group, const Find &find, int64_t opset,
                                                                    GraphDraft *draft) const;

private:
  bool isAlone(const std::vector<int> &members, const onnx_export::OpNote &note) const;
  bool isParameterOf(const std::vector<int> &members, const std::string &value) const;

  const Nodes &nodes_;
  const std::vector<int> &order_;
  std::unordered_map<std::string, size_t> reads_; // how often a value is read; empty where no node says anything
};

} // namespace opc::onnx
