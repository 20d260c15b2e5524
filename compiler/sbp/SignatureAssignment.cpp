// The planner's answer as attributes of the graph.
// SPDX-License-Identifier: Apache-2.0
#include "SignatureAssignment.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "GraphCosts.h"
#include "SignatureChoices.h"
#include "SignatureProblem.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <random>

using namespace mlir;

namespace opc {
namespace {

using planner::OpKind;

class Assigner {
public:
  Assigner(ModuleOp module, SignatureProblem problem, const MeshRequest &request, MeshFacts *report)
      : module_(module), block_(graphBlock(module)), p_(std::move(problem)), request_(request), report_(report),
        builder_(module.getContext()) {}

  LogicalResult run() {
    addLifetimes();
    addDiscounts();
    planner::Solution solution;
    if (request_.randomSeed) {
      if (failed(chooseAtRandom(&solution))) return failure();
    } else {
      planner::Options options;
      options.memoryLimit = request_.deviceMemory;
      // On three dimensions pairs of states are too many to look at; a copy is then one of the readers' transitions.
      if (request_.dims.size() > 2) options.copies = 0;
      const auto start = std::chrono::steady_clock::now();
      solution = planner::solve(p_.problem, options);
      report_->planningSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (!solution.feasible) return blame(solution);
    }
    annotate(solution);
    report_->placements = p_.placements;
    report_->cost = solution.cost;
    report_->lowerBound = solution.lowerBound;
    report_->gap = solution.gap;
    report_->method = solution.method;
    report_->variables = solution.variables;
    report_->distinct = solution.distinct;
    for (size_t i = 0; i < p_.problem.ops.size(); ++i)
      if (p_.ops[i])
        report_->computeSeconds += p_.problem.opKinds[p_.problem.ops[i].kind].signatures[solution.signature[i]].seconds;
    describeChoices(p_, solution, report_);
    return success();
  }

private:
  /// What is alive when a single device would hold most counts against the memory limit.
  void addLifetimes() {
    if (!request_.deviceMemory) return;
    std::vector<uint32_t> made(p_.problem.tensors.size(), 0), last(p_.problem.tensors.size(), 0);
    for (uint32_t i = 0; i < p_.problem.ops.size(); ++i) {
      for (uint32_t t : p_.problem.ops[i].outputs) made[t] = last[t] = i;
      for (uint32_t t : p_.problem.ops[i].inputs) last[t] = i;
    }
    std::vector<int64_t> change(p_.problem.ops.size() + 1, 0);
    auto bytes = [&](uint32_t t) {
      const auto &b = p_.problem.tensorKinds[p_.problem.tensors[t].kind].bytes;
      return static_cast<int64_t>(*std::max_element(b.begin(), b.end()));
    };
    auto isSource = [&](uint32_t t) {
      return isa<ir::InputOp, ir::VariableOp, ir::ConstantOp>(p_.values[t].getDefiningOp());
    };
    for (uint32_t t = 0; t < made.size(); ++t)
      if (!isSource(t)) change[made[t]] += bytes(t), change[last[t] + 1] -= bytes(t);
    int64_t live = 0, most = -1;
    uint32_t at = 0;
    for (uint32_t i = 0; i < p_.problem.ops.size(); ++i)
      if ((live += change[i]) > most) most = live, at = i;
    for (uint32_t t = 0; t < made.size(); ++t)
      p_.problem.tensors[t].held = isSource(t) || (made[t] <= at && last[t] >= at) ? 1 : 0;
  }

  /// Reductions that nothing waits for hide behind the contractions that follow: the part of their time for which there
  /// are none stays.
  void addDiscounts() {
    if (!request_.overlap) return;
    const HeavyOps heavy(block_);
    double communication = 0, computation = 0;
    std::vector<uint32_t> waiting;
    for (size_t i = 0; i < p_.ops.size(); ++i) {
      const planner::Op &op = p_.problem.ops[i];
      for (uint32_t t : op.outputs)
        if (p_.ops[i] && heavy.mayWait(p_.values[t])) {
          waiting.push_back(t);
          const auto &kind = p_.problem.tensorKinds[p_.problem.tensors[t].kind];
          double most = 0;
          for (double b : kind.boxing)
            if (std::isfinite(b)) most = std::max(most, b);
          communication += most;
        }
      if (!waiting.empty() && p_.ops[i] && heavy.isHeavy(p_.ops[i])) {
        double least = std::numeric_limits<double>::infinity();
        for (const auto &s : p_.problem.opKinds[op.kind].signatures) least = std::min(least, s.seconds);
        computation += least;
      }
    }
    if (waiting.empty() || communication == 0) return;
    // Never quite free: what is sent is sent, and of two plans that hide everything the one that sends less is better.
    const double discount = std::max(0.05, 1 - computation / communication);
    for (uint32_t t : waiting) p_.problem.tensors[t].discount = discount;
  }

  LogicalResult chooseAtRandom(planner::Solution *solution) {
    std::mt19937_64 random(*request_.randomSeed);
    const uint64_t shared = random();
    solution->feasible = true;
    solution->method = "random signatures";
    solution->signature.assign(p_.problem.ops.size(), 0);
    solution->copies.assign(p_.problem.tensors.size(), {});
    std::vector<uint32_t> state(p_.problem.tensors.size(), 0);
    std::vector<SmallVector<std::pair<uint32_t, uint32_t>, 1>> updates(p_.problem.tensors.size()); // op, input
    for (uint32_t i = 0; i < p_.problem.ops.size(); ++i) {
      const auto &pinnedInputs = p_.problem.opKinds[p_.problem.ops[i].kind].pinned;
      for (uint32_t k = 0; k < pinnedInputs.size(); ++k)
        if (pinnedInputs[k]) updates[p_.problem.ops[i].inputs[k]].push_back({i, k});
    }
    for (uint32_t i = 0; i < p_.problem.ops.size(); ++i) {
      const planner::Op &op = p_.problem.ops[i];
      const OpKind &kind = p_.problem.opKinds[op.kind];
      std::vector<uint32_t> fits;
      for (uint32_t s = 0; s < kind.signatures.size(); ++s) {
        const auto &signature = kind.signatures[s];
        bool ok = true;
        for (size_t k = 0; k < kind.pinned.size(); ++k)
          ok &= !kind.pinned[k] || signature.inputs[k] == state[op.inputs[k]];
        // A variable takes a state that everybody who updates it can work with.
        for (size_t o = 0; o < op.outputs.size(); ++o)
          for (const auto &[reader, input] : updates[op.outputs[o]])
            ok &= llvm::any_of(p_.problem.opKinds[p_.problem.ops[reader].kind].signatures,
                               [&, in = input](const auto &r) { return r.inputs[in] == signature.outputs[o]; });
        if (ok) fits.push_back(s);
      }
      if (fits.empty())
        return p_.ops[i] ? LogicalResult(emitFinding(p_.ops[i]->getLoc(), "OPC0310", "no signature fits at random"))
                         : failure();
      // Variables that are updated together must agree: those of equal shape take the same state.
      const bool isUpdated = op.outputs.size() == 1 && !updates[op.outputs[0]].empty();
      const uint32_t chosen = fits[(isUpdated ? shared : random()) % fits.size()];
      solution->signature[i] = chosen;
      for (size_t o = 0; o < op.outputs.size(); ++o) state[op.outputs[o]] = kind.signatures[chosen].outputs[o];
    }
    solution->cost = planner::costOf(p_.problem, solution->signature);
    return success();
  }

  LogicalResult blame(const planner::Solution &solution) {
    if (solution.blamed < 0)
      return emitFinding(module_.getLoc(), "OPC0312",
                         "the graph does not fit: " + Twine(solution.bytes) +
                             " bytes a device are the least that was found for variables and live tensors; the limit "
                             "is " +
                             Twine(request_.deviceMemory));
    Operation *op = p_.ops[static_cast<size_t>(solution.blamed)];
    if (!op) return emitFinding(module_.getLoc(), "OPC0310", "a tensor cannot get from one placement to another");
    return emitFinding(op->getLoc(), "OPC0310", "no signature fits the states that its inputs can be in");
  }

  ArrayAttr statesAttr(uint32_t op, uint32_t signature) {
    const planner::Op &node = p_.problem.ops[op];
    auto [it, fresh] = stateAttrs_.insert({{node.kind, signature}, ArrayAttr()});
    if (!fresh) return it->second;
    const OpKind::Signature &s = p_.problem.opKinds[node.kind].signatures[signature];
    SmallVector<Attribute> list;
    auto add = [&](const std::vector<uint32_t> &tensors, const std::vector<uint32_t> &states) {
      for (size_t i = 0; i < tensors.size(); ++i)
        list.push_back(ir::StateAttr::get(builder_.getContext(),
                                          p_.states[p_.problem.tensors[tensors[i]].kind].states[states[i]]));
    };
    add(node.inputs, s.inputs);
    add(node.outputs, s.outputs);
    return it->second = builder_.getArrayAttr(list);
  }

  void annotate(const planner::Solution &solution) {
    std::map<Operation *, std::vector<Attribute>> transfers; // few
    for (uint32_t i = 0; i < p_.problem.ops.size(); ++i) {
      const planner::Op &node = p_.problem.ops[i];
      Operation *op = p_.ops[i];
      if (!op) {
        const uint32_t there = node.outputs[0];
        const auto &s = p_.problem.opKinds[node.kind].signatures[solution.signature[i]];
        const KindStates &k = p_.states[p_.problem.tensors[there].kind];
        auto result = cast<OpResult>(p_.values[there]);
        transfers[result.getOwner()].push_back(
            builder_.getArrayAttr({builder_.getI32IntegerAttr(static_cast<int32_t>(result.getResultNumber())),
                                   builder_.getI32IntegerAttr(static_cast<int32_t>(k.placement)),
                                   ir::StateAttr::get(builder_.getContext(), k.states[s.outputs[0]])}));
        continue;
      }
      op->setAttr(ir::kStatesAttr, statesAttr(i, solution.signature[i]));
      SmallVector<Attribute> copies;
      bool any = false;
      for (uint32_t t : node.outputs) {
        SmallVector<Attribute> list;
        for (uint32_t s : solution.copies[t])
          list.push_back(ir::StateAttr::get(builder_.getContext(), p_.states[p_.problem.tensors[t].kind].states[s]));
        any |= !list.empty();
        copies.push_back(builder_.getArrayAttr(list));
      }
      if (any) op->setAttr(ir::kCopiesAttr, builder_.getArrayAttr(copies));
    }
    for (auto &[op, list] : transfers) op->setAttr(ir::kTransfersAttr, builder_.getArrayAttr(list));
  }

  ModuleOp module_;
  Block &block_;
  SignatureProblem p_;
  const MeshRequest &request_;
  MeshFacts *report_;
  Builder builder_;
  std::map<std::pair<uint32_t, uint32_t>, ArrayAttr> stateAttrs_;
};

} // namespace

LogicalResult assignSignatures(ModuleOp module, const MeshRequest &request, MeshFacts *report) {
  FailureOr<SignatureProblem> problem = makeSignatureProblem(module, request);
  return failed(problem) ? failure() : Assigner(module, std::move(*problem), request, report).run();
}

} // namespace opc
