// Facts, timelines and findings as the document that the scripts of a page draw.
// SPDX-License-Identifier: Apache-2.0
#include "PageData.h"

#include "FactNodes.h"
#include "LargeNumbers.h"
#include "Markup.h"
#include "PrintableText.h"
#include "TextParts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

namespace opc::cli {

namespace {

constexpr size_t kLongestValue = 400; // of an attribute, in bytes

/// A list of different texts, in the order in which they came.
class Texts {
public:
  size_t operator()(const std::string &text) {
    const auto [found, isNew] = numbers_.try_emplace(printableName(text), list_.size());
    if (isNew) list_.push_back(found->first);
    return found->second;
  }
  Json take() { return std::move(list_); }

private:
  std::unordered_map<std::string, size_t> numbers_; // looked up, never walked
  Json list_ = Json::array();
};

Json nanoseconds(double seconds) { return wholeJson(seconds * 1e9); }
/// Six digits: what is shown, and no noise of the last bits.
double rounded(double seconds) {
  if (seconds == 0 || !std::isfinite(seconds)) return 0;
  const double scale = std::pow(10, 5 - std::floor(std::log10(std::abs(seconds))));
  return std::round(seconds * scale) / scale;
}

class PageDocument {
public:
  explicit PageDocument(const GraphFacts &facts) : facts_(facts), graph_(facts) {
    for (size_t n = 0; n < graph_.size(); ++n)
      if (graph_.nodes[n].kind == NodeKind::kOp) nodeOf_.try_emplace(graph_.nodes[n].name, n);
    for (const MeshFacts::Op &op : facts.mesh.ops) states_.try_emplace(op.name, stateClass(op.signature));
  }

  Json make(const NodeMarks &marks, const std::vector<PageTimeline> &timelines) {
    Json document = Json::object();
    document["nodes"] = nodes(marks);
    if (!facts_.tasks.empty()) document["tasks"] = tasks();
    if (!facts_.memory.slots.empty()) document["memory"] = memory();
    if (!facts_.mesh.ops.empty()) {
      document["mesh"] = true;
      document["moves"] = moves();
      if (!facts_.mesh.choices.empty()) document["choices"] = {{"list", choices()}};
    }
    if (!timelines.empty()) {
      Json list = Json::array();
      for (const PageTimeline &t : timelines) list.push_back(timeline(t));
      document["timelines"] = std::move(list);
    }
    document["texts"] = texts_.take();
    return document;
  }

private:
  int64_t nodeOf(const std::string &op) const {
    const auto found = nodeOf_.find(op);
    return found == nodeOf_.end() ? -1 : static_cast<int64_t>(found->second);
  }
  static int laneOf(const std::string &role) { return role == "forward" ? 0 : role == "backward" ? 1 : 2; }

  Json made(const FactNode &node) {
    Json list = Json::array();
    if (node.kind == NodeKind::kOp)
      for (const GraphTensor &t : facts_.ops[node.index].outputs)
        list.push_back(Json::array({texts_(t.name), texts_(tensorTypeText(t))}));
    else
      list.push_back(Json::array({texts_(""), texts_(node.types)}));
    return list;
  }

  /// kind, lane, name, type, made, read, place, attributes, flops, bytes, loc, state, mark, device, the node whose
  /// gradient it is plus one: what stands at the end and is nothing is left out.
  Json nodes(const NodeMarks &marks) {
    Json list = Json::array();
    for (size_t n = 0; n < graph_.size(); ++n) {
      const FactNode &node = graph_.nodes[n];
      Json reads = Json::array(), place = 0, attrs = 0, loc = 0, state = 0, device = 0;
      double flops = 0, bytes = 0;
      for (const FactNode::Operand &o : node.operands) {
        reads.push_back(o.producer);
        reads.push_back(texts_(o.slot));
        reads.push_back(texts_(o.port));
      }
      if (node.range.known()) place = Json::array({texts_(node.range.file), node.range.line, node.range.column});
      if (node.kind == NodeKind::kOp) {
        const GraphOp &op = facts_.ops[node.index];
        flops = op.flops;
        bytes = op.bytes;
        if (!op.attrs.empty()) attrs = attributes(op);
        if (!op.loc.empty()) loc = texts_(op.loc);
        if (!op.device.empty()) device = texts_(op.device);
        if (const auto found = states_.find(node.name); found != states_.end()) state = found->second;
      }
      const int mark = n < marks.size() ? static_cast<int>(marks[n]) : 0;
      Json one =
          Json::array({static_cast<int>(node.kind), laneOf(node.role), texts_(node.name), texts_(node.type), made(node),
                       std::move(reads), std::move(place), std::move(attrs), wholeJson(flops), wholeJson(bytes),
                       std::move(loc), std::move(state), mark, std::move(device), node.gradientOf + 1});
      while (one.back() == 0) one.erase(one.size() - 1);
      list.push_back(std::move(one));
    }
    return list;
  }

  Json attributes(const GraphOp &op) {
    Json list = Json::array();
    for (const auto &[key, value] : op.attrs) {
      std::string text = value.toString();
      if (text.size() > kLongestValue) text = clipped(text, kLongestValue);
      list.push_back(Json::array({texts_(key), texts_(text)}));
    }
    return list;
  }

  Json tasks() {
    Json list = Json::array();
    for (const GraphTask &t : facts_.tasks)
      list.push_back(Json::array({nodeOf(t.op), texts_(t.kernel), t.stream, texts_(t.op)}));
    return list;
  }

  Json memory() {
    // As memory.js has them: a graph is what a graph in an op takes.
    static const std::vector<std::string> kKinds = {"activation", "workspace", "input",
                                                    "variable",   "constant",  "graph"};
    const MemoryFacts &m = facts_.memory;
    Json slots = Json::array();
    for (const MemoryFacts::Slot &s : m.slots) {
      const auto kind = std::find(kKinds.begin(), kKinds.end(), s.kind) - kKinds.begin();
      slots.push_back(Json::array({texts_(s.name), kind, s.offset, s.bytes, s.firstTask, s.lastTask}));
    }
    return {{"arena", m.arenaBytes}, {"slots", std::move(slots)}};
  }

  /// maker, port, kind, from, to, bytes, seconds, the tensor; of those that travel together the first has their bytes,
  /// and the others -1.
  Json moves() {
    std::unordered_map<std::string, std::pair<size_t, std::string>> makers;
    for (size_t n = 0; n < graph_.size(); ++n) {
      const FactNode &node = graph_.nodes[n];
      if (node.kind == NodeKind::kOp)
        for (const GraphTensor &t : facts_.ops[node.index].outputs) makers.try_emplace(t.tensor, n, t.name);
      else if (node.kind != NodeKind::kOutput)
        makers.try_emplace((node.kind == NodeKind::kInput ? facts_.inputs : facts_.variables)[node.index].tensor, n,
                           "");
    }
    Json list = Json::array();
    for (const MeshFacts::Transition &t : facts_.mesh.transitions)
      for (size_t i = 0; i < t.tensors.size(); ++i) {
        const auto maker = makers.find(t.tensors[i]);
        const bool isKnown = maker != makers.end();
        list.push_back(Json::array({isKnown ? static_cast<int64_t>(maker->second.first) : -1,
                                    texts_(isKnown ? maker->second.second : ""), texts_(t.kind), texts_(t.from),
                                    texts_(t.to), i ? -1 : t.bytes, i ? 0 : rounded(t.seconds), texts_(t.tensors[i])}));
      }
    return list;
  }

  Json choices() {
    Json list = Json::array();
    for (const MeshFacts::OpChoices &op : facts_.mesh.choices) {
      Json options = Json::array();
      for (const MeshFacts::Choice &c : op.choices)
        options.push_back(Json::array({texts_(c.outputs), texts_(c.signature), rounded(c.seconds),
                                       rounded(c.transitionSeconds), c.chosen ? 1 : 0}));
      const std::string tensors = joined(op.tensors, ", ", [](const std::string &t) { return t; });
      list.push_back({{"node", nodeOf(op.op)},
                      {"tensors", texts_(tensors)},
                      {"possible", op.possible},
                      {"choices", std::move(options)}});
    }
    return list;
  }

  /// 0 compute, 1 communication, 2 backward, 3 update.
  int kindOf(const PageTimeline::Span &span, int64_t node) const {
    if (span.communicates) return 1;
    if (node < 0) return 0;
    const int lane = laneOf(graph_.nodes[static_cast<size_t>(node)].role);
    return lane ? lane + 1 : 0;
  }

  Json timeline(const PageTimeline &t) {
    Json lanes = Json::array(), spans = Json::array();
    for (const std::string &lane : t.lanes) lanes.push_back(texts_(lane));
    for (const PageTimeline::Span &s : t.spans) {
      const int64_t node = nodeOf(s.op);
      spans.push_back(
          Json::array({s.lane, texts_(s.op), nanoseconds(s.begin), nanoseconds(s.seconds), node, kindOf(s, node)}));
    }
    Json j = {{"title", texts_(t.title)}, {"measured", t.measured}, {"lanes", lanes}, {"spans", spans}};
    if (!t.note.empty()) j["note"] = texts_(t.note);
    return j;
  }

  const GraphFacts &facts_;
  const FactNodes graph_;
  std::unordered_map<std::string, size_t> nodeOf_; // looked up, never walked
  std::map<std::string, std::string> states_;      // by op
  Texts texts_;
};

} // namespace

Json pageData(const GraphFacts &facts, const NodeMarks &marks, const std::vector<PageTimeline> &timelines) {
  return PageDocument(facts).make(marks, timelines);
}

} // namespace opc::cli
