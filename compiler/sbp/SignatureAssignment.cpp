// The graph as a problem of the planner, and its answer as attributes.
// SPDX-License-Identifier: Apache-2.0
#include "SignatureAssignment.h"
#include "AttrBridge.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "GraphCosts.h"
#include "GraphStates.h"
#include "Locations.h"
#include "MutableInputs.h"
#include "NdSignatures.h"
#include "SignaturePlanner.h"
#include "SplitSoftmax.h"
#include "StatePins.h"
#include "VariableReads.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <random>

using namespace mlir;

namespace opc {
namespace {

using planner::OpKind;
using planner::Problem;

/// The states of one kind of tensor, and where each is in the list.
struct KindStates {
  user_op::TensorDesc desc;
  uint32_t placement = 0;
  std::vector<NdSbp> states;
  std::map<std::string, uint32_t> index;
  std::optional<uint32_t> find(const NdSbp &s) const {
    auto it = index.find(toString(s));
    if (it == index.end()) return std::nullopt;
    return it->second;
  }
};

class Assigner {
public:
  Assigner(ModuleOp module, const MeshRequest &request, SbpReport *report)
      : module_(module), block_(graphBlock(module)), request_(request), report_(report), pins_(module, request),
        builder_(module.getContext()) {}

  LogicalResult run() {
    placements_ = readPlacements(module_);
    if (failed(pins_.check())) return failure();
    afterWrites_ = readsAfterWrites(block_);
    for (Operation &op : block_)
      if (!op.hasTrait<OpTrait::IsTerminator>() && failed(addOp(&op))) failed_ = true;
    if (failed_) return failure();
    if (failed(pins_.checkUsed())) return failure();
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
      solution = planner::solve(problem_, options);
      report_->planningSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (!solution.feasible) return blame(solution);
    }
    annotate(solution);
    report_->placements = placements_;
    report_->cost = solution.cost;
    report_->lowerBound = solution.lowerBound;
    report_->gap = solution.gap;
    report_->method = solution.method;
    report_->variables = solution.variables;
    report_->distinct = solution.distinct;
    for (size_t i = 0; i < problem_.ops.size(); ++i)
      if (ops_[i])
        report_->computeSeconds += problem_.opKinds[problem_.ops[i].kind].signatures[solution.signature[i]].seconds;
    return success();
  }

private:
  uint32_t tensorKind(Type type, uint32_t placement) {
    auto [it, fresh] = tensorKinds_.try_emplace({type, placement}, static_cast<uint32_t>(states_.size()));
    if (!fresh) return it->second;
    const Placement &p = placements_[placement];
    KindStates k;
    k.desc = ir::descOf(type);
    k.placement = placement;
    // On a mesh dimension of one device all states are the same thing, and called B.
    for (NdSbp &s : legalStates(k.desc.shape(), k.desc.data_type(), p.dims))
      if (s == onDevices(s, p.dims)) k.states.push_back(std::move(s));
    planner::TensorKind kind;
    kind.states = static_cast<uint32_t>(k.states.size());
    kind.boxing = boxingMatrix(k.desc.shape(), k.desc.data_type(), k.states, p, linksOf(p));
    for (uint32_t s = 0; s < k.states.size(); ++s) {
      k.index.emplace(toString(k.states[s]), s);
      const Box box = localBox(k.desc.shape(), k.states[s], p.dims, 0);
      kind.bytes.push_back(static_cast<uint64_t>(box.elements()) * GetSizeOfDataType(k.desc.data_type()));
    }
    states_.push_back(std::move(k));
    problem_.tensorKinds.push_back(std::move(kind));
    return it->second;
  }

  MeshLinks linksOf(const Placement &p) const {
    MeshLinks links = request_.links;
    links.dims.resize(p.dims.size());
    return links;
  }

  uint32_t addTensor(Type type, uint32_t placement, Value value) {
    problem_.tensors.push_back({tensorKind(type, placement), 0, 1});
    values_.push_back(value);
    return static_cast<uint32_t>(problem_.tensors.size() - 1);
  }

  /// The tensor as ops of a placement see it: another one where it has to travel.
  uint32_t tensorFor(Value v, uint32_t placement) {
    const uint32_t own = tensorOf_.lookup(v), from = states_[problem_.tensors[own].kind].placement;
    if (from == placement) return own;
    auto [it, fresh] = transferred_.insert({{own, placement}, 0});
    if (!fresh) return it->second;
    const uint32_t there = addTensor(v.getType(), placement, v);
    it->second = there;
    const KindStates &a = states_[problem_.tensors[own].kind], &b = states_[problem_.tensors[there].kind];
    auto [kindIt, freshKind] = transferKinds_.insert(
        {{problem_.tensors[own].kind, problem_.tensors[there].kind}, static_cast<uint32_t>(problem_.opKinds.size())});
    if (freshKind) {
      OpKind kind;
      const Placement &source = placements_[from], &target = placements_[placement];
      for (uint32_t s = 0; s < a.states.size(); ++s)
        for (uint32_t t = 0; t < b.states.size(); ++t) {
          if (hasPartial(b.states[t])) continue;
          double seconds = 0;
          for (const BoxingOp &step : boxingPath(a.desc.shape(), a.desc.data_type(), a.states[s], source, b.states[t],
                                                 target, linksOf(source), linksOf(target)))
            seconds += boxingSeconds(step, linksOf(source));
          kind.signatures.push_back({{s}, {t}, seconds});
        }
      problem_.opKinds.push_back(std::move(kind));
    }
    problem_.ops.push_back({kindIt->second, {own}, {there}});
    ops_.push_back(nullptr);
    return there;
  }

  LogicalResult addOp(Operation *op) {
    const uint32_t placement = placementOf(op);
    planner::Op node;
    for (Value v : op->getOperands()) node.inputs.push_back(tensorFor(v, placement));
    for (Value v : op->getResults()) {
      const uint32_t t = addTensor(v.getType(), placement, v);
      tensorOf_[v] = t;
      node.outputs.push_back(t);
    }
    auto kind = kindOf(op, placement);
    if (failed(kind)) return failure();
    node.kind = *kind;
    problem_.ops.push_back(std::move(node));
    ops_.push_back(op);
    return success();
  }

  FailureOr<uint32_t> kindOf(Operation *op, uint32_t placement) {
    StatePins::OpPins pins = pins_.of(op);
    for (auto &[slot, states] : pins.states) {
      const std::vector<int64_t> &dims = placements_[placement].dims;
      if (states.size() != dims.size())
        return emitFinding(op->getLoc(), "OPC0311",
                           pins.text + " has " + std::to_string(states.size()) + " states, and the op is on " +
                               placements_[placement].toString());
      states = onDevices(states, dims);
    }
    SmallVector<const void *> key = {op->getName().getAsOpaquePointer(),
                                     reinterpret_cast<const void *>(uintptr_t{placement})};
    auto user = dyn_cast<ir::UserOp>(op);
    if (user)
      llvm::append_range(key, std::initializer_list<const void *>{user.getOpTypeAttr().getAsOpaquePointer(),
                                                                  user.getOpAttrs().getAsOpaquePointer(),
                                                                  user.getInputNames().getAsOpaquePointer(),
                                                                  user.getInputSizesAttr().getAsOpaquePointer(),
                                                                  user.getOutputNames().getAsOpaquePointer()});
    for (Type t : op->getOperandTypes()) key.push_back(t.getAsOpaquePointer());
    for (Type t : op->getResultTypes()) key.push_back(t.getAsOpaquePointer());
    std::string text(reinterpret_cast<const char *>(key.data()), key.size() * sizeof(void *));
    for (const auto &[slot, states] : pins.states) text += std::to_string(slot) + toString(states);
    std::vector<bool> asItIs(op->getNumOperands(), false); // operands that no boxing may come before
    for (OpOperand &operand : op->getOpOperands())
      if (afterWrites_.contains(&operand) || (isa<ir::OutputOp>(op) && operand.get().getDefiningOp<ir::VariableOp>())) {
        asItIs[operand.getOperandNumber()] = true;
        text += "w" + std::to_string(operand.getOperandNumber());
      }
    auto [it, fresh] = opKinds_.try_emplace(text, static_cast<uint32_t>(problem_.opKinds.size()));
    if (!fresh) return it->second;
    problem_.opKinds.emplace_back();
    OpKind kind;
    if (failed(user ? userKind(user, placement, pins, asItIs, &kind)
                    : structuralKind(op, placement, pins, asItIs, &kind)))
      return failure();
    problem_.opKinds[it->second] = std::move(kind);
    return it->second;
  }

  static NdSbp onDevices(NdSbp states, const std::vector<int64_t> &dims) {
    for (size_t m = 0; m < dims.size(); ++m)
      if (dims[m] == 1) states[m] = SbpParallel::broadcast();
    return states;
  }

  static const NdSbp *pinned(const StatePins::OpPins &pins, unsigned slot) {
    for (const auto &[s, states] : pins.states)
      if (s == slot) return &states;
    return nullptr;
  }

  /// Sources may be made in any state that is not partial; outputs are whole everywhere unless the user says otherwise.
  /// An output of a variable shows it as the step leaves it, so it has the variable's own state: a transition would
  /// take the value before the update.
  LogicalResult structuralKind(Operation *op, uint32_t placement, const StatePins::OpPins &pins,
                               const std::vector<bool> &asItIs, OpKind *kind) {
    const bool isOutput = isa<ir::OutputOp>(op);
    const bool isFree = isOutput && asItIs[0]; // it is put together when it is fetched
    if (isFree) kind->pinned = asItIs;
    const Type type = isOutput ? op->getOperand(0).getType() : op->getResult(0).getType();
    const KindStates &k = states_[tensorKind(type, placement)];
    const NdSbp *pin = pinned(pins, 0);
    for (uint32_t s = 0; s < k.states.size(); ++s) {
      if (pin ? k.states[s] != *pin : isOutput && !isFree && !isBroadcast(k.states[s])) continue;
      if (hasPartial(k.states[s])) continue;
      if (isOutput)
        kind->signatures.push_back({{s}, {}, 0});
      else
        kind->signatures.push_back({{}, {s}, 0});
    }
    if (!kind->signatures.empty()) return success();
    return emitFinding(op->getLoc(), "OPC0311",
                       pins.text + ": " + k.desc.toString() + " cannot be " + toString(*pin) + " on " +
                           placements_[placement].toString());
  }

  LogicalResult userKind(ir::UserOp op, uint32_t placement, const StatePins::OpPins &pins,
                         const std::vector<bool> &asItIs, OpKind *kind) {
    const user_op::OpDef &def = *op.def();
    auto instance = ir::toInstance(op, def);
    const std::vector<int64_t> &dims = placements_[placement].dims;
    auto signatures = ndSignaturesOf(*instance, dims);
    if (!signatures) return emitStatus(op, signatures.status()), failure();
    const size_t inputs = op.getArgs().size(), slots = inputs + op.getOuts().size();
    std::vector<const KindStates *> kinds;
    std::vector<uint32_t> kindIndex;
    for (size_t i = 0; i < slots; ++i)
      kindIndex.push_back(
          tensorKind(i < inputs ? op.getArgs()[i].getType() : op.getOuts()[i - inputs].getType(), placement));
    for (uint32_t i : kindIndex) kinds.push_back(&states_[i]);
    // A cross-entropy can also be made of parts that work on pieces of the classes.
    std::vector<double> reductions(signatures->size(), 0);
    if (maySplitClasses(op))
      for (size_t i = 0, n = signatures->size(); i < n; ++i)
        for (uint64_t split = 1; split < uint64_t{1} << dims.size(); ++split)
          if (auto states = splitClassStates(op, (*signatures)[i].states, split)) {
            reductions.push_back(
                splitClassSeconds(op, *states, split, placements_[placement], linksOf(placements_[placement])));
            signatures->push_back({std::move(*states)});
          }
    std::string rejected;
    for (size_t n = 0; n < signatures->size(); ++n) {
      const NdSignature &signature = (*signatures)[n];
      OpKind::Signature s;
      std::string why;
      for (size_t i = 0; i < slots && why.empty(); ++i) {
        const NdSbp &state = signature.states[i];
        const std::optional<uint32_t> index = kinds[i]->find(state);
        const NdSbp *pin = pinned(pins, static_cast<unsigned>(i));
        if (!index)
          why = "a part would be empty";
        else if (pin && state != *pin)
          why = std::string(i < inputs ? "input " : "output ") + std::to_string(i < inputs ? i : i - inputs) +
                " is fixed as " + toString(*pin);
        else
          (i < inputs ? s.inputs : s.outputs).push_back(*index);
      }
      if (!why.empty()) {
        rejected += "\n" + signatureText(*instance, signature) + ": " + why;
        continue;
      }
      OpInstance local = *instance;
      for (size_t i = 0; i < slots; ++i) {
        user_op::TensorDesc &d = i < inputs ? local.inputDescs()[i] : local.outputDescs()[i - inputs];
        d = user_op::TensorDesc(localShape(d.shape(), signature.states[i], dims, 0), d.data_type());
      }
      s.seconds = opSeconds(local, request_.device) + reductions[n];
      kind->signatures.push_back(std::move(s));
    }
    if (def.modifyInputs) {
      kind->pinned = mutableInputs(*instance);
      for (size_t i = 0; i < inputs; ++i)
        kind->pinned[i] = kind->pinned[i] && op.getArgs()[static_cast<unsigned>(i)].getDefiningOp<ir::VariableOp>();
    }
    if (llvm::is_contained(asItIs, true)) {
      kind->pinned.resize(inputs, false);
      for (size_t i = 0; i < inputs; ++i) kind->pinned[i] = kind->pinned[i] || asItIs[i];
    }
    if (!kind->signatures.empty()) return success();
    InFlightDiagnostic error =
        emitFinding(op.getLoc(), "OPC0310", "no SBP signature of " + op.getOpType() + " fits what is fixed for it",
                    "fixed by " + (pins.text.empty() ? "the shapes" : pins.text) +
                        "; take one of these states or leave it to the planner");
    error.attachNote() << "signatures on " << placements_[placement].toString() << ":" << rejected;
    return error;
  }

  /// What is alive when a single device would hold most counts against the memory limit.
  void addLifetimes() {
    if (!request_.deviceMemory) return;
    std::vector<uint32_t> made(problem_.tensors.size(), 0), last(problem_.tensors.size(), 0);
    for (uint32_t i = 0; i < problem_.ops.size(); ++i) {
      for (uint32_t t : problem_.ops[i].outputs) made[t] = last[t] = i;
      for (uint32_t t : problem_.ops[i].inputs) last[t] = i;
    }
    std::vector<int64_t> change(problem_.ops.size() + 1, 0);
    auto bytes = [&](uint32_t t) {
      const auto &b = problem_.tensorKinds[problem_.tensors[t].kind].bytes;
      return static_cast<int64_t>(*std::max_element(b.begin(), b.end()));
    };
    auto isSource = [&](uint32_t t) {
      return isa<ir::InputOp, ir::VariableOp, ir::ConstantOp>(values_[t].getDefiningOp());
    };
    for (uint32_t t = 0; t < made.size(); ++t)
      if (!isSource(t)) change[made[t]] += bytes(t), change[last[t] + 1] -= bytes(t);
    int64_t live = 0, most = -1;
    uint32_t at = 0;
    for (uint32_t i = 0; i < problem_.ops.size(); ++i)
      if ((live += change[i]) > most) most = live, at = i;
    for (uint32_t t = 0; t < made.size(); ++t)
      problem_.tensors[t].held = isSource(t) || (made[t] <= at && last[t] >= at) ? 1 : 0;
  }

  /// Reductions that nothing waits for hide behind the contractions that follow: the part of their time for which there
  /// are none stays.
  void addDiscounts() {
    if (!request_.overlap) return;
    const HeavyOps heavy(block_);
    double communication = 0, computation = 0;
    std::vector<uint32_t> waiting;
    for (size_t i = 0; i < ops_.size(); ++i) {
      const planner::Op &op = problem_.ops[i];
      for (uint32_t t : op.outputs)
        if (ops_[i] && heavy.mayWait(values_[t])) {
          waiting.push_back(t);
          const auto &kind = problem_.tensorKinds[problem_.tensors[t].kind];
          double most = 0;
          for (double b : kind.boxing)
            if (std::isfinite(b)) most = std::max(most, b);
          communication += most;
        }
      if (!waiting.empty() && ops_[i] && heavy.isHeavy(ops_[i])) {
        double least = std::numeric_limits<double>::infinity();
        for (const auto &s : problem_.opKinds[op.kind].signatures) least = std::min(least, s.seconds);
        computation += least;
      }
    }
    if (waiting.empty() || communication == 0) return;
    // Never quite free: what is sent is sent, and of two plans that hide everything the one that sends less is better.
    const double discount = std::max(0.05, 1 - computation / communication);
    for (uint32_t t : waiting) problem_.tensors[t].discount = discount;
  }

  LogicalResult chooseAtRandom(planner::Solution *solution) {
    std::mt19937_64 random(*request_.randomSeed);
    const uint64_t shared = random();
    solution->feasible = true;
    solution->method = "random signatures";
    solution->signature.assign(problem_.ops.size(), 0);
    solution->copies.assign(problem_.tensors.size(), {});
    std::vector<uint32_t> state(problem_.tensors.size(), 0);
    std::vector<SmallVector<std::pair<uint32_t, uint32_t>, 1>> updates(problem_.tensors.size()); // op, input
    for (uint32_t i = 0; i < problem_.ops.size(); ++i) {
      const auto &pinnedInputs = problem_.opKinds[problem_.ops[i].kind].pinned;
      for (uint32_t k = 0; k < pinnedInputs.size(); ++k)
        if (pinnedInputs[k]) updates[problem_.ops[i].inputs[k]].push_back({i, k});
    }
    for (uint32_t i = 0; i < problem_.ops.size(); ++i) {
      const planner::Op &op = problem_.ops[i];
      const OpKind &kind = problem_.opKinds[op.kind];
      std::vector<uint32_t> fits;
      for (uint32_t s = 0; s < kind.signatures.size(); ++s) {
        const auto &signature = kind.signatures[s];
        bool ok = true;
        for (size_t k = 0; k < kind.pinned.size(); ++k)
          ok &= !kind.pinned[k] || signature.inputs[k] == state[op.inputs[k]];
        // A variable takes a state that everybody who updates it can work with.
        for (size_t o = 0; o < op.outputs.size(); ++o)
          for (const auto &[reader, input] : updates[op.outputs[o]])
            ok &= llvm::any_of(problem_.opKinds[problem_.ops[reader].kind].signatures,
                               [&, in = input](const auto &r) { return r.inputs[in] == signature.outputs[o]; });
        if (ok) fits.push_back(s);
      }
      if (fits.empty())
        return ops_[i] ? LogicalResult(emitFinding(ops_[i]->getLoc(), "OPC0310", "no signature fits at random"))
                       : failure();
      // Variables that are updated together must agree: those of equal shape take the same state.
      const bool isUpdated = op.outputs.size() == 1 && !updates[op.outputs[0]].empty();
      const uint32_t chosen = fits[(isUpdated ? shared : random()) % fits.size()];
      solution->signature[i] = chosen;
      for (size_t o = 0; o < op.outputs.size(); ++o) state[op.outputs[o]] = kind.signatures[chosen].outputs[o];
    }
    solution->cost = planner::costOf(problem_, solution->signature);
    return success();
  }

  LogicalResult blame(const planner::Solution &solution) {
    if (solution.blamed < 0)
      return emitFinding(module_.getLoc(), "OPC0312",
                         "the graph does not fit: " + Twine(solution.bytes) +
                             " bytes a device are the least that was found for variables and live tensors; the limit "
                             "is " +
                             Twine(request_.deviceMemory));
    Operation *op = ops_[static_cast<size_t>(solution.blamed)];
    if (!op) return emitFinding(module_.getLoc(), "OPC0310", "a tensor cannot get from one placement to another");
    return emitFinding(op->getLoc(), "OPC0310", "no signature fits the states that its inputs can be in");
  }

  ArrayAttr statesAttr(uint32_t op, uint32_t signature) {
    const planner::Op &node = problem_.ops[op];
    auto [it, fresh] = stateAttrs_.insert({{node.kind, signature}, ArrayAttr()});
    if (!fresh) return it->second;
    const OpKind::Signature &s = problem_.opKinds[node.kind].signatures[signature];
    SmallVector<Attribute> list;
    auto add = [&](const std::vector<uint32_t> &tensors, const std::vector<uint32_t> &states) {
      for (size_t i = 0; i < tensors.size(); ++i)
        list.push_back(builder_.getStringAttr(toString(states_[problem_.tensors[tensors[i]].kind].states[states[i]])));
    };
    add(node.inputs, s.inputs);
    add(node.outputs, s.outputs);
    return it->second = builder_.getArrayAttr(list);
  }

  void annotate(const planner::Solution &solution) {
    std::map<Operation *, std::vector<Attribute>> transfers; // few
    for (uint32_t i = 0; i < problem_.ops.size(); ++i) {
      const planner::Op &node = problem_.ops[i];
      Operation *op = ops_[i];
      if (!op) {
        const uint32_t there = node.outputs[0];
        const auto &s = problem_.opKinds[node.kind].signatures[solution.signature[i]];
        const KindStates &k = states_[problem_.tensors[there].kind];
        auto result = cast<OpResult>(values_[there]);
        transfers[result.getOwner()].push_back(
            builder_.getArrayAttr({builder_.getI32IntegerAttr(static_cast<int32_t>(result.getResultNumber())),
                                   builder_.getI32IntegerAttr(static_cast<int32_t>(k.placement)),
                                   builder_.getStringAttr(toString(k.states[s.outputs[0]]))}));
        continue;
      }
      op->setAttr(ir::kStatesAttr, statesAttr(i, solution.signature[i]));
      SmallVector<Attribute> copies;
      bool any = false;
      for (uint32_t t : node.outputs) {
        SmallVector<Attribute> list;
        for (uint32_t s : solution.copies[t])
          list.push_back(builder_.getStringAttr(toString(states_[problem_.tensors[t].kind].states[s])));
        any |= !list.empty();
        copies.push_back(builder_.getArrayAttr(list));
      }
      if (any) op->setAttr(kCopiesAttr, builder_.getArrayAttr(copies));
    }
    for (auto &[op, list] : transfers) op->setAttr(kTransfersAttr, builder_.getArrayAttr(list));
  }

  ModuleOp module_;
  Block &block_;
  const MeshRequest &request_;
  SbpReport *report_;
  StatePins pins_;
  Builder builder_;
  std::vector<Placement> placements_;
  Problem problem_;
  std::deque<KindStates> states_; // by tensor kind
  std::vector<Operation *> ops_;  // by op of the problem; null: a transfer
  llvm::DenseSet<OpOperand *> afterWrites_;
  std::vector<Value> values_; // by tensor
  llvm::DenseMap<std::pair<Type, uint32_t>, uint32_t> tensorKinds_;
  llvm::StringMap<uint32_t> opKinds_;
  llvm::DenseMap<Value, uint32_t> tensorOf_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> transferred_, transferKinds_;
  std::map<std::pair<uint32_t, uint32_t>, ArrayAttr> stateAttrs_;
  bool failed_ = false;
};

} // namespace

LogicalResult assignSignatures(ModuleOp module, const MeshRequest &request, SbpReport *report) {
  return Assigner(module, request, report).run();
}

} // namespace opc
