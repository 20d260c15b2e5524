// Branches and turns as ONNX nodes with graphs: If, Loop.
// SPDX-License-Identifier: Apache-2.0
#include "ControlOp.h"
#include "OnnxEmitters.h"

#include <memory>
#include <set>

namespace opc::onnx_export {
namespace {

Wire scalar(Emission &e, const Wire &x) { return e.reshape(x, Shape()); }

/// A graph in a node, while it is written.
class Inner {
public:
  explicit Inner(Emission &outer) : graph_(std::make_shared<onnx::Graph>()), nodes_(graph_.get(), &outer.nodesHere()) {
    graph_->set_name(nodes_.fresh(outer.op.name + "/graph"));
  }
  Nodes &nodes() { return nodes_; }
  Wire takes(const std::string &name, const user_op::TensorDesc &desc) {
    const Wire wire{nodes_.fresh(name), desc.data_type(), desc.shape()};
    describe(wire, graph_->add_input());
    return wire;
  }
  /// Outputs are made here, each under a name of its own.
  void makes(Emission &here, const std::vector<Wire> &results) {
    std::set<std::string> made;
    for (const onnx::Node &node : graph_->node()) made.insert(node.output().begin(), node.output().end());
    for (const Wire &wire : results)
      describe(made.erase(wire.name) ? wire : here.unary("Identity", wire), graph_->add_output());
  }
  NodeAttr attribute() const { return std::shared_ptr<const onnx::Graph>(graph_); }

private:
  std::shared_ptr<onnx::Graph> graph_;
  Nodes nodes_;
};

std::vector<Wire> operands(Emission &e, size_t first, size_t count) {
  std::vector<Wire> wires;
  for (size_t k = 0; k < count; ++k) wires.push_back(e.raw("in", static_cast<int32_t>(first + k)));
  return wires;
}

void append(std::vector<Wire> *to, const std::vector<Wire> &wires) {
  to->insert(to->end(), wires.begin(), wires.end());
}

void emitIf(Emission &e) {
  const Wire condition = scalar(e, e.raw("cond"));
  const std::vector<Wire> captures = operands(e, 0, static_cast<size_t>(e.count("in")));
  const auto branch = [&](const std::string &graph) {
    Inner inner(e);
    Emission here(inner.nodes(), e);
    inner.makes(here, here.inlined(graph, captures));
    return inner.attribute();
  };
  const std::vector<std::string> graphs = controlGraphs(ControlKind::kIf);
  const NodeAttrs attrs = {{"then_branch", branch(graphs[0])}, {"else_branch", branch(graphs[1])}};
  std::vector<std::pair<DataType, Shape>> types;
  for (const auto &desc : e.instance.outputDescs()) types.emplace_back(desc.data_type(), desc.shape());
  const std::vector<Wire> made = e.nodes("If", {condition}, attrs, types);
  for (size_t k = 0; k < made.size(); ++k) e.out("out", made[k], static_cast<int32_t>(k));
}

class LoopEmission {
public:
  explicit LoopEmission(Emission &e) : e_(e), parts_(loopParts(e.instance)) {}

  void write() {
    turns_ = scalar(e_, e_.raw("turns"));
    // More turns than there is room for are an error of the run, and so are fewer than rows that are all to be there.
    if (parts_.rows && !parts_.isPartial)
      turns_ = length();
    else if (parts_.length >= 0)
      turns_ = e_.binary("Min", turns_, length());
    std::vector<Wire> inputs = {turns_, scalar(e_, e_.raw("cond"))};
    append(&inputs, operands(e_, 0, parts_.states));
    const auto &descs = e_.instance.outputDescs();
    std::vector<std::pair<DataType, Shape>> types;
    for (size_t k = 0; k < descs.size(); ++k) types.emplace_back(descs[k].data_type(), collected(k));
    const NodeAttrs attrs = {{"body", body()}};
    const std::vector<Wire> made = e_.nodes("Loop", inputs, attrs, types);
    for (size_t k = 0; k < made.size(); ++k)
      e_.out("out", k < parts_.states ? made[k] : rows(made[k], descs[k].shape().At(0)), static_cast<int32_t>(k));
  }

private:
  Wire length() { return e_.integers({parts_.length}, Shape()); }

  /// Of an output: a row for each turn that there can be.
  Shape collected(size_t k) const {
    Shape shape = e_.instance.outputDescs()[k].shape();
    if (k >= parts_.states) shape.Set(0, parts_.length);
    return shape;
  }

  NodeAttr body() {
    Wire last;
    if (parts_.isReverse) last = e_.plus(turns_, -1);
    const ControlPorts ports = controlPorts(e_.instance);
    Inner inner(e_);
    Emission here(inner.nodes(), e_);
    const std::string &name = e_.op.name;
    Wire number = inner.takes(name + "/turn", ports.inputs[0]);
    (void)inner.takes(name + "/goes_on", ports.outputs[0]);
    std::vector<Wire> states, inputs;
    for (size_t k = 0; k < parts_.states; ++k)
      states.push_back(inner.takes(name + "/state" + std::to_string(k), ports.inputs[1 + k]));
    if (parts_.isReverse) number = here.sub(last, number);
    inputs = {number};
    append(&inputs, states);
    for (const Wire &sequence : operands(e_, parts_.states, parts_.sequences))
      inputs.push_back(here.gather(sequence, number, 0));
    append(&inputs, operands(e_, parts_.states + parts_.sequences, parts_.captures));
    inner.makes(here, here.inlined(controlGraphs(ControlKind::kLoop)[0], inputs));
    return inner.attribute();
  }

  /// Rows of turns in the order in which they were made -> by number, zeros where there are none.
  Wire rows(const Wire &made, int64_t size) {
    if (!parts_.isPartial) return parts_.isReverse ? flipped(made) : made;
    // One more than there can be turns: it is always zeros.
    Shape more = made.shape;
    more.Set(0, size + 1);
    Wire whole = e_.concat({made, e_.filled(made.type, more, 0)}, 0);
    whole = e_.slice(whole, 0, 0, parts_.isReverse ? size + 1 : size);
    if (!parts_.isReverse) return whole;
    const Wire zero = e_.integers({0}, Shape()), one = e_.integers({1}, Shape()), none = e_.integers({size}, Shape());
    const Wire numbers = e_.node("Range", {zero, none, one}, {}, kInt64, Shape({size}));
    const Wire places = e_.sub(e_.plus(turns_, -1), numbers);
    return e_.gather(whole, e_.select(e_.test("Less", numbers, turns_), places, none), 0);
  }

  Wire flipped(const Wire &x) {
    return e_.node("Slice", {x, e_.integers({-1}), e_.integers({INT64_MIN}), e_.integers({0}), e_.integers({-1})}, {},
                   x.type, x.shape);
  }

  Emission &e_;
  const LoopParts parts_;
  Wire turns_;
};

} // namespace

void addControl(EmitterTable *t) {
  t->add(kIfType, Types::kOwn, emitIf, "If");
  t->add(
      kLoopType, Types::kOwn, [](Emission &e) { LoopEmission(e).write(); }, "Loop, Gather",
      "fewer or more turns than rows are no error");
  t->nodesSayMore({kIfType, kLoopType});
}

} // namespace opc::onnx_export
