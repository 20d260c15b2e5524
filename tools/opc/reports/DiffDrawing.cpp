// The difference of two graphs as SVG, and as a page.
// SPDX-License-Identifier: Apache-2.0
#include "DiffDrawing.h"

#include "GraphDrawing.h"
#include "GraphPage.h"
#include "HtmlPage.h"
#include "PageData.h"

#include <map>

namespace opc::cli {

namespace {

/// b with the nodes that only a has, and the marks of all nodes.
class Union {
public:
  Union(const FactNodes &a, const FactNodes &b, const GraphMatch &match) : a_(a), b_(b), match_(match) {
    facts.inputs = b.facts->inputs;
    facts.variables = b.facts->variables;
    facts.ops = b.facts->ops;
    facts.outputs = b.facts->outputs;
    facts.mesh = b.facts->mesh;
    nameTensors();
    for (size_t n = 0; n < a.size(); ++n)
      if (match.ofA[n] < 0) addRemoved(a.nodes[n]);
  }

  NodeMarks marks(const DiffReport &report) const {
    std::map<std::string, NodeMark> changed;
    for (const GraphFinding &f : report.difference.findings) {
      if (f.change != ChangeKind::kChanged && f.change != ChangeKind::kRenamed) continue;
      NodeMark &mark = changed[f.op];
      if (f.change == ChangeKind::kChanged)
        mark = NodeMark::kChanged;
      else if (mark == NodeMark::kNone)
        mark = NodeMark::kRenamed;
    }
    // Of each kind first those of b, then those that only a has.
    NodeMarks marks;
    size_t n = 0;
    const size_t counts[] = {facts.inputs.size(), facts.variables.size(), facts.ops.size(), facts.outputs.size()};
    for (const NodeKind kind : {NodeKind::kInput, NodeKind::kVariable, NodeKind::kOp, NodeKind::kOutput}) {
      const size_t end = marks.size() + counts[static_cast<size_t>(kind)];
      for (; n < b_.size() && b_.nodes[n].kind == kind; ++n) {
        const auto found = changed.find(b_.nodes[n].name);
        marks.push_back(match_.ofB[n] < 0        ? NodeMark::kAdded
                        : found != changed.end() ? found->second
                                                 : NodeMark::kNone);
      }
      marks.resize(end, NodeMark::kRemoved);
    }
    return marks;
  }

  GraphFacts facts;

private:
  /// What a's tensors are called in the union: as in b, or, of nodes that are gone, by a name that b cannot have.
  void nameTensors() {
    for (size_t n = 0; n < a_.size(); ++n) {
      const FactNode &node = a_.nodes[n];
      const int32_t partner = match_.ofA[n];
      const auto name = [&](const GraphTensor &t, const std::vector<GraphTensor> *others) {
        names_.try_emplace(t.tensor, t.tensor + "\n(gone)");
        if (others)
          for (const GraphTensor &u : *others)
            if (u.name == t.name) names_[t.tensor] = u.tensor;
      };
      const uint32_t other = partner < 0 ? 0 : b_.nodes[static_cast<size_t>(partner)].index;
      if (node.kind == NodeKind::kOp)
        for (const GraphTensor &t : a_.facts->ops[node.index].outputs)
          name(t, partner < 0 ? nullptr : &b_.facts->ops[other].outputs);
      else if (node.kind == NodeKind::kInput)
        names_[a_.facts->inputs[node.index].tensor] =
            partner < 0 ? a_.facts->inputs[node.index].tensor + "\n(gone)" : b_.facts->inputs[other].tensor;
      else if (node.kind == NodeKind::kVariable)
        names_[a_.facts->variables[node.index].tensor] =
            partner < 0 ? a_.facts->variables[node.index].tensor + "\n(gone)" : b_.facts->variables[other].tensor;
    }
  }
  std::string called(const std::string &tensor) const {
    const auto found = names_.find(tensor);
    return found == names_.end() ? tensor : found->second;
  }

  void addRemoved(const FactNode &node) {
    const auto renamed = [&](GraphTensor t) {
      t.tensor = called(t.tensor);
      return t;
    };
    switch (node.kind) {
    case NodeKind::kInput: facts.inputs.push_back(renamed(a_.facts->inputs[node.index])); return;
    case NodeKind::kVariable: facts.variables.push_back(renamed(a_.facts->variables[node.index])); return;
    case NodeKind::kOutput: facts.outputs.push_back(renamed(a_.facts->outputs[node.index])); return;
    case NodeKind::kOp: break;
    }
    GraphOp op = a_.facts->ops[node.index];
    for (auto &in : op.inputs) in.tensor = called(in.tensor);
    for (GraphTensor &t : op.outputs) t = renamed(std::move(t));
    facts.ops.push_back(std::move(op));
  }

  const FactNodes &a_, &b_;
  const GraphMatch &match_;
  std::map<std::string, std::string> names_;
};

} // namespace

std::string diffSvg(const FactNodes &a, const FactNodes &b, const GraphMatch &match, const DiffReport &report) {
  const Union both(a, b, match);
  return graphSvg(both.facts, report.a + " -> " + report.b + ": " + diffSummary(report), both.marks(report));
}

std::string diffHtml(const FactNodes &a, const FactNodes &b, const GraphMatch &match, const DiffReport &report) {
  const Union both(a, b, match);
  HtmlPage page(report.a + " -> " + report.b, diffSummary(report), pageData(both.facts, both.marks(report), {}));
  page.add("changes", "Changes", findingsTable(report.difference.findings));
  page.add("graph", "Graph");
  return page.text();
}

} // namespace opc::cli
