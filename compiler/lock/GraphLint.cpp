// What is doubtful in a graph by itself.
// SPDX-License-Identifier: Apache-2.0
#include "GraphLint.h"

#include <map>
#include <set>

namespace opc {
namespace {

class Lint {
public:
  explicit Lint(const GraphFacts &facts) : facts_(facts) {
    for (const GraphOp &op : facts.ops)
      for (const GraphTensor &out : op.outputs) makers_[out.tensor] = &op;
    for (const GraphTask &task : facts.tasks) runs_.insert(task.op);
    for (const GraphOp &op : facts.ops)
      for (const auto &in : op.inputs) read_.insert(in.tensor);
    for (const GraphTensor &out : facts.outputs) read_.insert(out.tensor);
  }

  std::vector<GraphFinding> run() {
    findDeadOps();
    findUnused(facts_.inputs, ChangeSubject::kInput);
    findUnused(facts_.variables, ChangeSubject::kVariable);
    for (const GraphGradient &g : facts_.gradients)
      if (g.gradient.empty())
        add("GRAD_MISSING", ChangeSubject::kVariable, g.name, rangeOfPort(g.name), "has no gradient",
            "opc grad GRAPH --loss LOSS --explain " + g.name + " shows where the path stops");
    for (const GraphOp &op : facts_.ops)
      if (op.role == "forward") findHazards(op);
    return std::move(findings_);
  }

private:
  void add(const char *rule, ChangeSubject subject, const std::string &name, const SourceRange &range,
           std::string message, std::string help) {
    GraphFinding f;
    f.rule = rule;
    f.subject = subject;
    f.severity = Severity::kWarning;
    f.op = name;
    f.range = range;
    f.message = std::move(message);
    f.help = std::move(help);
    findings_.push_back(std::move(f));
  }

  SourceRange rangeOfPort(const std::string &name) const {
    for (const auto *ports : {&facts_.variables, &facts_.inputs})
      for (const GraphTensor &t : *ports)
        if (t.name == name) return t.range;
    return {};
  }

  /// Ops that no output depends on, nor a task of the plan that nobody reads.
  void findDeadOps() {
    std::set<const GraphOp *> live;
    std::vector<const GraphOp *> work;
    const auto reach = [&](const GraphOp *op) {
      if (op && live.insert(op).second) work.push_back(op);
    };
    const auto makerOf = [&](const std::string &tensor) -> const GraphOp * {
      const auto found = makers_.find(tensor);
      return found == makers_.end() ? nullptr : found->second;
    };
    for (const GraphTensor &out : facts_.outputs) reach(makerOf(out.tensor));
    for (const GraphGradient &g : facts_.gradients) reach(makerOf(g.gradient));
    for (const GraphOp &op : facts_.ops)
      if (op.outputs.empty() || (op.role != "forward" && op.role != "backward") || runs_.count(op.name)) reach(&op);
    while (!work.empty()) {
      const GraphOp *op = work.back();
      work.pop_back();
      for (const auto &in : op->inputs) reach(makerOf(in.tensor));
    }
    for (const GraphOp &op : facts_.ops)
      if (!live.count(&op))
        add("DEAD_OP", ChangeSubject::kOp, op.name, op.range, "nothing that the graph gives depends on it",
            "remove it, or make it an output");
  }

  void findUnused(const std::vector<GraphTensor> &ports, ChangeSubject subject) {
    for (const GraphTensor &t : ports)
      if (!read_.count(t.tensor)) add("UNUSED_INPUT", subject, t.name, t.range, "no op reads it", "remove it");
  }

  const GraphTensor *tensorOf(const std::string &name) const {
    if (const auto found = makers_.find(name); found != makers_.end())
      for (const GraphTensor &t : found->second->outputs)
        if (t.tensor == name) return &t;
    for (const auto *ports : {&facts_.variables, &facts_.inputs})
      for (const GraphTensor &t : *ports)
        if (t.tensor == name) return &t;
    return nullptr;
  }

  /// The op whose values a tensor has, behind ops that only move them or change their type.
  const GraphOp *sourceOf(std::string tensor) const {
    static const std::set<std::string> movers = {"cast",    "reshape",     "identity", "transpose",
                                                 "flatten", "expand_dims", "squeeze"};
    for (size_t steps = 0; steps <= makers_.size(); ++steps) {
      const auto maker = makers_.find(tensor);
      if (maker == makers_.end()) return nullptr;
      if (!movers.count(maker->second->type) || maker->second->inputs.empty()) return maker->second;
      tensor = maker->second->inputs[0].tensor;
    }
    return nullptr;
  }

  void findHazards(const GraphOp &op) {
    if (op.inputs.size() != 1 || op.outputs.size() != 1) return;
    if (op.type == "log" || op.type == "log2" || op.type == "log10") {
      const GraphOp *source = sourceOf(op.inputs[0].tensor);
      if (source && (source->type == "softmax" || source->type == "sigmoid"))
        add("NUMERIC_HAZARD", ChangeSubject::kOp, op.name, op.range,
            "the logarithm of the " + source->type + " " + source->name +
                ": small probabilities round to 0, and become -inf",
            std::string("log_") + source->type + " computes the same without rounding");
    }
    // Kernels sum in f32 at least and round once: what remains is that the sum is too large for the type.
    static const std::set<std::string> sums = {"reduce_sum", "reduce_nansum", "square_sum"};
    const ElementType &type = elementType(op.outputs[0].dtype);
    const GraphTensor *in = tensorOf(op.inputs[0].tensor);
    if (!sums.count(op.type) || !in || type.kind != ElementClass::kFloating || type.bits > 16) return;
    const int64_t out = op.outputs[0].shape.elem_cnt(), summands = out ? in->shape.elem_cnt() / out : 0;
    if (static_cast<double>(summands) > type.highest)
      add("NUMERIC_HAZARD", ChangeSubject::kOp, op.name, op.range,
          "the sum of " + std::to_string(summands) + " values in " + type.name + ", whose largest is " +
              std::to_string(static_cast<int64_t>(type.highest)) + ": of ones it is infinite",
          "cast to f32 before the sum, or take a mean");
  }

  const GraphFacts &facts_;
  std::map<std::string, const GraphOp *> makers_;
  std::set<std::string> runs_, read_;
  std::vector<GraphFinding> findings_;
};

} // namespace

std::vector<GraphFinding> lintGraph(const GraphFacts &facts) { return Lint(facts).run(); }

} // namespace opc
