// What differs between two graphs: interface, ops, edges, tensors.
// SPDX-License-Identifier: Apache-2.0
#include "GraphComparison.h"

#include "AttrChange.h"
#include "CostComparison.h"
#include "LockRecords.h"

#include <algorithm>
#include <map>
#include <set>

namespace opc {
namespace {

bool isPort(const FactNode &node) { return node.kind != NodeKind::kOp; }

ChangeSubject subjectOf(const FactNode &node) {
  switch (node.kind) {
  case NodeKind::kInput: return ChangeSubject::kInput;
  case NodeKind::kOutput: return ChangeSubject::kOutput;
  case NodeKind::kVariable: return ChangeSubject::kVariable;
  case NodeKind::kOp: break;
  }
  return ChangeSubject::kOp;
}

std::string lower(const FactNode &node) { return nodeKindName(node.kind); }

/// "INPUT" + suffix.
std::string portRule(const FactNode &node, const char *suffix) {
  const char *kind = node.kind == NodeKind::kInput ? "INPUT" : node.kind == NodeKind::kOutput ? "OUTPUT" : "VARIABLE";
  return kind + std::string(suffix);
}

constexpr const char *kSeedAttr = "seed"; // of ops that draw random numbers

bool isGradient(const FactNode &n) { return n.role != "forward"; }

std::map<std::string, int32_t> opsOf(const FactNodes &graph) {
  std::map<std::string, int32_t> ops;
  for (size_t n = 0; n < graph.size(); ++n)
    if (!isPort(graph.nodes[n])) ops.try_emplace(graph.nodes[n].name, static_cast<int32_t>(n));
  return ops;
}

size_t outputNumber(const FactNodes &graph, const FactNode &node, const std::string &port) {
  if (node.kind != NodeKind::kOp) return 0;
  const std::vector<GraphTensor> &outputs = graph.facts->ops[node.index].outputs;
  return static_cast<size_t>(
      std::find_if(outputs.begin(), outputs.end(), [&](const GraphTensor &t) { return t.name == port; }) -
      outputs.begin());
}

std::string list(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string orAny(const std::string &device) { return device.empty() ? "any" : device; }

std::string typeOf(const FactNodes &graph, const FactNode::Operand &o) {
  if (o.producer < 0) return "?";
  const FactNode &maker = graph.nodes[static_cast<size_t>(o.producer)];
  if (isPort(maker)) return maker.types;
  for (const GraphTensor &t : graph.facts->ops[maker.index].outputs)
    if (t.name == o.port) return tensorTypeText(t);
  return "?";
}

/// "cast f32[32,512] -> f16[32,512]", "input f32[32,784]".
std::string described(const FactNodes &graph, const FactNode &node) {
  if (isPort(node)) return node.type + " " + node.types;
  std::string text = node.type;
  for (const FactNode::Operand &o : node.operands)
    text += (&o == &node.operands.front() ? " " : ", ") + typeOf(graph, o);
  text += " ->";
  for (const GraphTensor &t : graph.facts->ops[node.index].outputs) text += " " + tensorTypeText(t);
  return text;
}

/// Pairs outside of a longest run of pairs that stand in one order in both files.
size_t countReordered(const FactNodes &a, const FactNodes &b, const GraphMatch &match) {
  using Place = std::pair<uint32_t, uint32_t>;
  std::vector<std::pair<Place, Place>> places;
  for (size_t n = 0; n < b.size(); ++n) {
    if (match.ofB[n] < 0) continue;
    const SourceRange &x = a.nodes[static_cast<size_t>(match.ofB[n])].range, &y = b.nodes[n].range;
    if (x.known() && y.known()) places.push_back({{y.line, y.column}, {x.line, x.column}});
  }
  std::sort(places.begin(), places.end());
  std::vector<Place> ends; // the last place of the best run of each length
  for (const auto &place : places) {
    const auto at = std::upper_bound(ends.begin(), ends.end(), place.second);
    if (at == ends.end())
      ends.push_back(place.second);
    else
      *at = place.second;
  }
  return places.size() - ends.size();
}

class Comparison {
public:
  Comparison(const FactNodes &a, const FactNodes &b, const GraphMatch &match, const ComparisonOptions &options)
      : a_(a), b_(b), match_(match), options_(options), opsOfA_(opsOf(a)), opsOfB_(opsOf(b)) {}

  GraphDifference run() {
    if (options_.interface) {
      forNodes([](const FactNode &n) { return isPort(n); });
      comparePortOrder();
    }
    if (options_.ops) forNodes([](const FactNode &n) { return !isPort(n) && !isGradient(n); });
    if (options_.tensors) compareTensors();
    if (options_.grad) {
      forNodes(isGradient);
      compareGradients();
    }
    compareDecisions(a_, b_, match_, options_, &found_.findings);
    for (size_t n = 0; n < b_.size(); ++n) {
      if (match_.ofB[n] < 0) continue;
      ++found_.paired;
      found_.renamed +=
          !isGradient(b_.nodes[n]) && a_.nodes[static_cast<size_t>(match_.ofB[n])].name != b_.nodes[n].name;
    }
    found_.reordered = countReordered(a_, b_, match_);
    found_.quality = match_.quality();
    return std::move(found_);
  }

private:
  GraphFinding &add(const FactNode &node, const char *rule, Severity severity, std::string message,
                    std::string expected = "", std::string found = "") {
    GraphFinding f;
    f.rule = isGradient(node) ? "GRAD_CHANGED" : rule;
    f.subject = isGradient(node) ? ChangeSubject::kGradient : subjectOf(node);
    f.severity = severity;
    f.op = node.name;
    f.range = node.range;
    f.message = std::move(message);
    f.expected = std::move(expected);
    f.found = std::move(found);
    found_.findings.push_back(std::move(f));
    return found_.findings.back();
  }

  template <class Wanted> void forNodes(const Wanted &wanted) {
    for (size_t n = 0; n < b_.size(); ++n) {
      const FactNode &node = b_.nodes[n];
      if (!wanted(node)) continue;
      if (match_.ofB[n] < 0)
        add(node, "OP_ADDED", Severity::kError, "added: " + described(b_, node), "", described(b_, node)).change =
            ChangeKind::kAdded;
      else
        comparePair(a_.nodes[static_cast<size_t>(match_.ofB[n])], node);
    }
    for (size_t n = 0; n < a_.size(); ++n) {
      const FactNode &node = a_.nodes[n];
      if (match_.ofA[n] >= 0 || !wanted(node)) continue;
      const std::string rule = isPort(node) ? portRule(node, "_REMOVED") : "OP_REMOVED";
      add(node, rule.c_str(), Severity::kError, "removed: " + described(a_, node), described(a_, node)).change =
          ChangeKind::kRemoved;
    }
  }

  void comparePair(const FactNode &a, const FactNode &b) {
    if (a.name != b.name && !isGradient(b)) { // ops of a gradient are named after others
      const std::string rule = isPort(b) ? portRule(b, "_REMOVED") : "OP_RENAMED";
      GraphFinding &f = add(b, rule.c_str(), isPort(b) ? Severity::kError : Severity::kNote, "renamed from " + a.name,
                            a.name, b.name);
      f.change = ChangeKind::kRenamed;
      if (isPort(b))
        f.help = "the " + lower(b) + " " + a.name + " is called " + b.name + " now; whoever names it must follow";
      if (isDrawn(b)) addOtherNumbers(a, b);
    }
    if (isGradient(b)) compareOrigins(a, b);
    if (a.type != b.type) {
      add(b, "OP_TYPE_CHANGED", Severity::kError, "type " + a.type + " -> " + b.type, a.type, b.type);
    } else if (b.kind == NodeKind::kOp) {
      compareAttributes(a, b);
      compareOrder(a, b);
    } else {
      if (a.types != b.types)
        add(b, portRule(b, "_TYPE_CHANGED").c_str(), Severity::kError, "type " + a.types + " -> " + b.types, a.types,
            b.types);
      if (b.kind == NodeKind::kVariable) compareVariables(a, b);
    }
    compareEdges(a, b);
  }

  /// Random numbers follow from the seed and the op's name: under another name it computes something else.
  bool isDrawn(const FactNode &node) const {
    return node.kind == NodeKind::kOp && b_.facts->ops[node.index].attrs.count(kSeedAttr);
  }
  void addOtherNumbers(const FactNode &a, const FactNode &b) {
    add(b, "OP_ATTR_CHANGED", Severity::kError, "random numbers: those of " + a.name + " -> those of " + b.name, a.name,
        b.name)
        .help = "they follow from the seed and the op's name: give it its name back, or accept other numbers";
  }

  /// Of whose gradient an op is part. A name that no op has any more says nothing: whoever has renamed the op by hand
  /// has left it.
  void compareOrigins(const FactNode &nodeA, const FactNode &nodeB) {
    const std::string &was = a_.facts->ops[nodeA.index].gradientOf, &is = b_.facts->ops[nodeB.index].gradientOf;
    const auto older = opsOfA_.find(was), newer = opsOfB_.find(is);
    if (older == opsOfA_.end() || match_.ofA[static_cast<size_t>(older->second)] < 0)
      return; // gone, which is said of that op
    if (!is.empty() && (newer == opsOfB_.end() || match_.ofA[static_cast<size_t>(older->second)] == newer->second))
      return;
    add(nodeB, "GRAD_CHANGED", Severity::kError, "gradient of: " + was + " -> " + (is.empty() ? "(none)" : is), was,
        is);
  }

  void compareAttributes(const FactNode &nodeA, const FactNode &nodeB) {
    const GraphOp &a = a_.facts->ops[nodeA.index], &b = b_.facts->ops[nodeB.index];
    std::set<std::string> names;
    for (const auto *attrs : {&a.attrs, &b.attrs})
      for (const auto &attr : *attrs) names.insert(attr.first);
    const auto textOf = [](const std::map<std::string, AttrValue> &attrs, const std::string &name) -> std::string {
      const auto found = attrs.find(name);
      return found == attrs.end() ? "(none)" : attributeText(found->second);
    };
    for (const std::string &name : names) {
      const auto x = a.attrs.find(name), y = b.attrs.find(name);
      const bool both = x != a.attrs.end() && y != b.attrs.end();
      if (both && sameAttribute(x->second, y->second)) continue;
      std::string was = textOf(a.attrs, name), is = textOf(b.attrs, name);
      if (was == is && both) {
        was = attrTypeName(x->second.type()) + (" " + was);
        is = attrTypeName(y->second.type()) + (" " + is);
      }
      add(nodeB, "OP_ATTR_CHANGED", Severity::kError, "attr " + name + ": " + changeText(was, is), was, is);
    }
    if (a.role != b.role)
      add(nodeB, "OP_ATTR_CHANGED", Severity::kError, "role: " + a.role + " -> " + b.role, a.role, b.role);
    if (a.device != b.device)
      add(nodeB, "PLACEMENT_CHANGED", Severity::kError, "device: " + orAny(a.device) + " -> " + orAny(b.device),
          a.device, b.device)
          .subject = ChangeSubject::kStates;
  }

  void compareVariables(const FactNode &nodeA, const FactNode &nodeB) {
    const GraphTensor &a = a_.facts->variables[nodeA.index], &b = b_.facts->variables[nodeB.index];
    const auto word = [](bool trainable) { return trainable ? "true" : "false"; };
    if (a.trainable != b.trainable)
      add(nodeB, "OP_ATTR_CHANGED", Severity::kError,
          std::string("trainable: ") + word(a.trainable) + " -> " + word(b.trainable), word(a.trainable),
          word(b.trainable));
    // A lock of an earlier version has no digest of a model's weights.
    const std::string was = lock::initialText(a), is = lock::initialText(b);
    const bool isNewlyKnown = was.empty() && !b.digest.empty();
    if (was != is && !isNewlyKnown)
      add(nodeB, "OP_ATTR_CHANGED", Severity::kError, "initializer: " + changeText(was, is), was, is);
  }

  bool sameTensor(const FactNode::Operand &a, const FactNode::Operand &b) const {
    if (a.producer < 0 || b.producer < 0) return a.producer == b.producer && a.tensor == b.tensor;
    if (match_.ofA[static_cast<size_t>(a.producer)] != b.producer) return false;
    const FactNode &x = a_.nodes[static_cast<size_t>(a.producer)], &y = b_.nodes[static_cast<size_t>(b.producer)];
    // An op of another type calls its outputs otherwise: the first one is the first one.
    return x.type == y.type ? a.port == b.port : outputNumber(a_, x, a.port) == outputNumber(b_, y, b.port);
  }

  /// What an op must run after, beside what it reads. That an op is gone is said of that op.
  void compareOrder(const FactNode &nodeA, const FactNode &nodeB) {
    const GraphOp &a = a_.facts->ops[nodeA.index], &b = b_.facts->ops[nodeB.index];
    std::set<int32_t> was, is; // nodes of b
    for (const std::string &name : a.after)
      if (const auto older = opsOfA_.find(name); older != opsOfA_.end())
        was.insert(match_.ofA[static_cast<size_t>(older->second)]);
    for (const std::string &name : b.after)
      if (const auto newer = opsOfB_.find(name); newer != opsOfB_.end()) is.insert(newer->second);
    was.erase(-1);
    const auto nameOf = [&](int32_t n) { return b_.nodes[static_cast<size_t>(n)].name; };
    for (const int32_t n : was)
      if (!is.count(n))
        add(nodeB, "EDGE_CHANGED", Severity::kError, "runs after " + nameOf(n) + " no more", nameOf(n), "");
    for (const int32_t n : is)
      if (!was.count(n))
        add(nodeB, "EDGE_CHANGED", Severity::kError, "must run after " + nameOf(n) + " now", "", nameOf(n));
  }

  /// "softmax (softmax)": who makes a tensor.
  static std::string makerOf(const FactNodes &graph, const FactNode::Operand &o) {
    if (o.producer < 0) return "nobody";
    const FactNode &maker = graph.nodes[static_cast<size_t>(o.producer)];
    return maker.name + " (" + maker.type + ")";
  }

  void compareEdges(const FactNode &a, const FactNode &b) {
    const auto report = [&](const std::string &slot, const std::string &was, const std::string &is) {
      add(b, "EDGE_CHANGED", Severity::kError,
          "input " + slot + ": " + (was.empty() ? "(none)" : was) + " -> " + (is.empty() ? "(none)" : is), was, is);
    };
    std::vector<const FactNode::Operand *> gone, come;
    for (const FactNode::Operand &o : b.operands) {
      const FactNode::Operand *other = operandAt(a, o.slot);
      if (!other)
        come.push_back(&o);
      else if (sameTensor(*other, o))
        continue;
      else if (other->tensor != o.tensor)
        report(o.slot, other->tensor, o.tensor);
      else // a name that another op has given its output
        report(o.slot, other->tensor + " of " + makerOf(a_, *other), o.tensor + " of " + makerOf(b_, o));
    }
    for (const FactNode::Operand &o : a.operands)
      if (!operandAt(b, o.slot)) gone.push_back(&o);
    // An op of another type calls its inputs otherwise, and reads the same ones perhaps.
    if (a.type != b.type)
      for (const FactNode::Operand *&o : come) {
        const auto same = std::find_if(gone.begin(), gone.end(), [&](const auto *x) { return sameTensor(*x, *o); });
        if (same == gone.end()) continue;
        gone.erase(same);
        o = nullptr;
      }
    for (const FactNode::Operand *o : come)
      if (o) report(o->slot, "", o->tensor);
    for (const FactNode::Operand *o : gone) report(o->slot, o->tensor, "");
  }

  void compareTensors() {
    for (size_t n = 0; n < b_.size(); ++n) {
      const FactNode &node = b_.nodes[n];
      if (isPort(node) || match_.ofB[n] < 0 || (isGradient(node) && !options_.grad)) continue;
      const FactNode &older = a_.nodes[static_cast<size_t>(match_.ofB[n])];
      std::map<std::string, std::string> was;
      const std::vector<GraphTensor> &before = a_.facts->ops[older.index].outputs;
      const std::vector<GraphTensor> &after = b_.facts->ops[node.index].outputs;
      for (size_t i = 0; i < before.size(); ++i)
        was[older.type == node.type || i >= after.size() ? before[i].name : after[i].name] = tensorTypeText(before[i]);
      for (const GraphTensor &t : after) {
        const auto old = was.find(t.name);
        const std::string is = tensorTypeText(t);
        if (old == was.end() || old->second == is) continue;
        GraphFinding &f =
            add(node, "TENSOR_TYPE_CHANGED", Severity::kError, "type " + old->second + " -> " + is, old->second, is);
        f.tensor = t.tensor;
        if (!isGradient(node)) f.subject = ChangeSubject::kTensor;
      }
    }
  }

  void comparePortOrder() {
    for (const NodeKind kind : {NodeKind::kInput, NodeKind::kOutput}) {
      std::vector<std::string> was, is;
      int32_t last = -1;
      bool moved = false;
      const FactNode *first = nullptr;
      for (size_t n = 0; n < b_.size(); ++n) {
        if (b_.nodes[n].kind != kind || match_.ofB[n] < 0) continue;
        if (!first) first = &b_.nodes[n];
        moved |= match_.ofB[n] < last;
        last = std::max(last, match_.ofB[n]);
        is.push_back(b_.nodes[n].name);
      }
      if (!moved) continue;
      for (size_t n = 0; n < a_.size(); ++n)
        if (a_.nodes[n].kind == kind && match_.ofA[n] >= 0) was.push_back(a_.nodes[n].name);
      const std::string before = list(was), now = list(is);
      add(*first, "IO_ORDER_CHANGED", Severity::kError,
          "order of the " + lower(*first) + "s: " + shortened(before) + " -> " + shortened(now), before, now)
          .change = ChangeKind::kReordered;
    }
  }

  void compareGradients() {
    std::map<std::string, const GraphGradient *> now;
    for (const GraphGradient &g : b_.facts->gradients) now[g.tensor] = &g;
    for (const GraphGradient &g : a_.facts->gradients) {
      if (g.gradient.empty()) continue;
      const auto node = std::find_if(a_.nodes.begin(), a_.nodes.end(), [&](const FactNode &n) {
        return isPort(n) && n.kind != NodeKind::kOutput && n.name == g.name;
      });
      if (node == a_.nodes.end()) continue;
      const int32_t partner = match_.ofA[static_cast<size_t>(node - a_.nodes.begin())];
      if (partner < 0) continue;
      const FactNode &newer = b_.nodes[static_cast<size_t>(partner)];
      const auto *list = newer.kind == NodeKind::kVariable ? &b_.facts->variables : &b_.facts->inputs;
      const auto found = now.find((*list)[newer.index].tensor);
      if (found != now.end() && !found->second->gradient.empty()) continue;
      add(newer, "GRAD_MISSING", Severity::kError, "has no gradient any more", g.gradient, "").subject =
          ChangeSubject::kGradient;
    }
  }

  const FactNodes &a_, &b_;
  const GraphMatch &match_;
  const ComparisonOptions &options_;
  const std::map<std::string, int32_t> opsOfA_, opsOfB_; // by name
  GraphDifference found_;
};

} // namespace

GraphDifference compareGraphs(const FactNodes &a, const FactNodes &b, const GraphMatch &match,
                              const ComparisonOptions &options) {
  return Comparison(a, b, match, options).run();
}

ComparisonOptions both(const ComparisonOptions &x, const ComparisonOptions &y) {
  ComparisonOptions all = x;
  all.interface &= y.interface;
  all.ops &= y.ops;
  all.tensors &= y.tensors;
  all.grad &= y.grad;
  all.sbp &= y.sbp;
  all.boxing &= y.boxing;
  all.tasks &= y.tasks;
  all.cost &= y.cost;
  all.pieces &= y.pieces;
  return all;
}

GraphDifference compareGraphs(const GraphFacts &a, const GraphFacts &b, const ComparisonOptions &options) {
  const FactNodes x(a), y(b);
  return compareGraphs(x, y, matchGraphs(x, y), options);
}

} // namespace opc
