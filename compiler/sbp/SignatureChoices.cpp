// What each op could have had in place of its signature.
// SPDX-License-Identifier: Apache-2.0
#include "SignatureChoices.h"

#include "Locations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace opc {
namespace {

constexpr size_t kShown = 6;
constexpr size_t kMostOps = 20000; // beyond, nobody reads them

using Signature = planner::OpKind::Signature;

class ChoiceList {
public:
  ChoiceList(const SignatureProblem &p, const planner::Solution &solution)
      : p_(p), solution_(solution), state_(p.problem.tensors.size()), wanted_(p.problem.tensors.size()) {
    for (uint32_t i = 0; i < p.problem.ops.size(); ++i) {
      const planner::Op &op = p.problem.ops[i];
      const Signature &s = signatureOf(i);
      for (size_t o = 0; o < op.outputs.size(); ++o) state_[op.outputs[o]] = s.outputs[o];
      for (size_t k = 0; k < op.inputs.size(); ++k) wanted_[op.inputs[k]].insert(s.inputs[k]);
    }
  }

  MeshFacts::OpChoices of(uint32_t op) const {
    const planner::Op &node = p_.problem.ops[op];
    const auto &signatures = p_.problem.opKinds[node.kind].signatures;
    struct Priced {
      double transitions, total;
      uint32_t signature;
    };
    std::vector<Priced> list;
    for (uint32_t s = 0; s < signatures.size(); ++s) {
      const double t = transitions(node, p_.problem.opKinds[node.kind], signatures[s]);
      if (std::isfinite(t)) list.push_back({t, t + signatures[s].seconds, s});
    }
    std::stable_sort(list.begin(), list.end(), [](const Priced &a, const Priced &b) { return a.total < b.total; });
    MeshFacts::OpChoices result;
    result.op = ir::opName(p_.ops[op]);
    result.possible = list.size();
    for (const uint32_t t : node.outputs) result.tensors.push_back(ir::tensorName(p_.values[t]));
    for (size_t i = 0; i < list.size(); ++i) {
      const bool chosen = list[i].signature == solution_.signature[op];
      if (i < kShown || chosen)
        result.choices.push_back(choice(node, signatures[list[i].signature], list[i].transitions, chosen));
    }
    return result;
  }

private:
  const Signature &signatureOf(uint32_t op) const {
    return p_.problem.opKinds[p_.problem.ops[op].kind].signatures[solution_.signature[op]];
  }
  double boxing(uint32_t tensor, uint32_t from, uint32_t to) const {
    const planner::Tensor &t = p_.problem.tensors[tensor];
    const planner::TensorKind &kind = p_.problem.tensorKinds[t.kind];
    return from == to ? 0 : t.discount * kind.boxing[size_t{from} * kind.states + to];
  }

  /// Of its inputs from the nearest state that there is, and of its outputs to each that readers want.
  double transitions(const planner::Op &node, const planner::OpKind &kind, const Signature &s) const {
    double sum = 0;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const uint32_t t = node.inputs[k];
      double least = boxing(t, state_[t], s.inputs[k]);
      if (k < kind.pinned.size() && kind.pinned[k] && state_[t] != s.inputs[k])
        least = std::numeric_limits<double>::infinity();
      else
        for (const uint32_t copy : solution_.copies[t]) least = std::min(least, boxing(t, copy, s.inputs[k]));
      sum += least;
    }
    for (size_t o = 0; o < node.outputs.size(); ++o)
      for (const uint32_t wanted : wanted_[node.outputs[o]]) sum += boxing(node.outputs[o], s.outputs[o], wanted);
    return sum;
  }

  std::string states(const std::vector<uint32_t> &tensors, const std::vector<uint32_t> &states) const {
    std::string text;
    for (size_t i = 0; i < tensors.size(); ++i)
      text += (i ? ", " : "") + toString(p_.states[p_.problem.tensors[tensors[i]].kind].states[states[i]]);
    return text;
  }
  MeshFacts::Choice choice(const planner::Op &node, const Signature &s, double transitionSeconds, bool chosen) const {
    MeshFacts::Choice c;
    c.outputs = states(node.outputs, s.outputs);
    c.signature = "(" + c.outputs + ")";
    if (!node.inputs.empty())
      c.signature = "(" + states(node.inputs, s.inputs) + ")" + (node.outputs.empty() ? "" : " -> " + c.signature);
    c.seconds = s.seconds;
    c.transitionSeconds = transitionSeconds;
    c.chosen = chosen;
    return c;
  }

  const SignatureProblem &p_;
  const planner::Solution &solution_;
  std::vector<uint32_t> state_;            // by tensor, as it is made
  std::vector<std::set<uint32_t>> wanted_; // by tensor, by its readers
};

} // namespace

void describeChoices(const SignatureProblem &problem, const planner::Solution &solution, MeshFacts *facts) {
  if (problem.ops.size() > kMostOps) return;
  const ChoiceList list(problem, solution);
  for (uint32_t i = 0; i < problem.ops.size(); ++i) {
    const planner::Op &op = problem.problem.ops[i];
    if (problem.ops[i] && !op.outputs.empty()) facts->choices.push_back(list.of(i));
  }
}

} // namespace opc
