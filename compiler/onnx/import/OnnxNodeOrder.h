// The nodes of an ONNX graph in an order in which they can be computed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "onnx.pb.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace opc::onnx {

using Nodes = google::protobuf::RepeatedPtrField<Node>;

/// The names that a node reads: its inputs, and what graphs in its attributes take from around them.
std::set<std::string> readsOf(const Node &node);

/// The node that has an output of this name, and which one it is.
std::optional<std::pair<int, int>> makerOf(const Nodes &nodes, const std::string &name);

/// A node gives a name that another value has, or reads one that nothing makes.
struct NameFault {
  int node;
  std::string name;
  bool isMadeTwice;
};
/// In the order of the nodes. `isGiven` says of a name whether the graph has it beside its nodes.
std::vector<NameFault> nameFaults(const Nodes &nodes, const std::function<bool(const std::string &name)> &isGiven);

/// Indices in the order of the file, but behind those that make what they read. On a cycle `cycle` gets its nodes.
std::vector<int> orderOf(const Nodes &nodes, std::vector<int> *cycle);

} // namespace opc::onnx
