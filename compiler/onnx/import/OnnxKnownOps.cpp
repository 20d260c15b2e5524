// Which ops of an ONNX model somebody can convert.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxKnownOps.h"
#include "BuiltIn.h"
#include "OnnxConversion.h"
#include "OnnxOwnNodes.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>

namespace opc::onnx {
namespace {

constexpr int kMostDepth = 64; // whoever converts them refuses what is deeper

/// Of another node conversion says what is wrong with its attributes, and not that nobody knows its op.
bool hasPlainAttributes(const Node &node) {
  std::set<std::string_view> names;
  return std::all_of(node.attribute().begin(), node.attribute().end(),
                     [&](const Attribute &a) { return a.ref_attr_name().empty() && names.insert(a.name()).second; });
}

} // namespace

const user_op::OpDef *KnownOps::pluginOp(const Node &node) const {
  // What another's domain has under the name of a built-in op may mean something else.
  const std::string domain = domainOf(node.domain());
  const user_op::OpDef *def = domain.empty() ? nullptr : registry_.findOp(node.op_type());
  return def && (domain == onnx_export::kOwnDomain || !isBuiltIn(def->origin)) ? def : nullptr;
}

bool KnownOps::has(const Node &node) const {
  return head_.function(node) || ConverterTable::get().find(domainOf(node.domain()), node.op_type()) || pluginOp(node);
}

bool KnownOps::hasAllWithin(const Node &node) { return hasAllWithin(node, 0); }

bool KnownOps::hasAllWithin(const Node &node, int depth) {
  if (depth > kMostDepth) return false;
  if (const Function *function = head_.function(node)) {
    // One that calls itself is refused by whoever converts it.
    const auto [found, isNew] = functions_.emplace(function, true);
    if (isNew) found->second = hasAll(function->node(), depth + 1);
    if (!functions_.at(function)) return false;
  }
  for (const Attribute &a : node.attribute()) {
    if (a.has_g() && !hasAll(a.g().node(), depth + 1)) return false;
    for (const Graph &g : a.graphs())
      if (!hasAll(g.node(), depth + 1)) return false;
  }
  return true;
}

bool KnownOps::hasAll(const Nodes &nodes, int depth) {
  return std::all_of(nodes.begin(), nodes.end(), [&](const Node &n) { return has(n) && hasAllWithin(n, depth); });
}

std::vector<int> unknownNodes(const Nodes &nodes, const std::vector<int> &order, KnownOps *known) {
  std::vector<int> unknown;
  std::unordered_set<std::string_view> lost; // what they make, and what is made of that
  for (const int k : order) {
    const Node &node = nodes[k];
    const std::set<std::string> reads = lost.empty() ? std::set<std::string>() : readsOf(node);
    if (std::none_of(reads.begin(), reads.end(), [&](const std::string &name) { return lost.count(name) > 0; })) {
      const bool isUnknown = !known->has(node);
      if (isUnknown ? !hasPlainAttributes(node) : !known->hasAllWithin(node)) return {};
      if (!isUnknown) continue;
      unknown.push_back(k);
    }
    for (const std::string &name : node.output())
      if (!name.empty()) lost.insert(name);
  }
  return unknown;
}

} // namespace opc::onnx
