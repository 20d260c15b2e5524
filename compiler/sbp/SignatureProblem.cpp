// The graph as a problem of the planner.
// SPDX-License-Identifier: Apache-2.0
#include "SignatureProblem.h"
#include "AttrBridge.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "GraphCosts.h"
#include "Locations.h"
#include "MeshPrices.h"
#include "MutableInputs.h"
#include "NdSignatures.h"
#include "SplitSoftmax.h"
#include "SplitUpdate.h"
#include "VariableReads.h"

using namespace mlir;

namespace opc {
namespace {

using planner::OpKind;

class ProblemMaker {
public:
  ProblemMaker(ModuleOp module, const MeshRequest &request)
      : block_(graphBlock(module)), request_(request), prices_(pricesOf(request)), pins_(module, request) {
    out_.placements = readPlacements(module);
  }

  FailureOr<SignatureProblem> run() {
    if (failed(pins_.check())) return failure();
    afterWrites_ = readsAfterWrites(block_);
    bool failedOnce = false;
    for (Operation &op : block_)
      if (!op.hasTrait<OpTrait::IsTerminator>() && failed(addOp(&op))) failedOnce = true;
    if (failedOnce || failed(pins_.checkUsed())) return failure();
    return std::move(out_);
  }

private:
  uint32_t tensorKind(Type type, uint32_t placement) {
    auto [it, fresh] = tensorKinds_.try_emplace({type, placement}, static_cast<uint32_t>(out_.states.size()));
    if (!fresh) return it->second;
    const Placement &p = out_.placements[placement];
    KindStates k;
    k.desc = ir::descOf(type);
    k.placement = placement;
    // On a mesh dimension of one device all states are the same thing, and called B.
    for (NdSbp &s : legalStates(k.desc.shape(), k.desc.data_type(), p.dims))
      if (s == onDevices(s, p.dims)) k.states.push_back(std::move(s));
    planner::TensorKind kind;
    kind.states = static_cast<uint32_t>(k.states.size());
    kind.boxing = boxingMatrix(k.desc.shape(), k.desc.data_type(), k.states, p, prices_.linksOf(placement));
    for (uint32_t s = 0; s < k.states.size(); ++s) {
      k.index.emplace(toString(k.states[s]), s);
      const Box box = localBox(k.desc.shape(), k.states[s], p.dims, 0);
      kind.bytes.push_back(static_cast<uint64_t>(box.elements()) * GetSizeOfDataType(k.desc.data_type()));
    }
    out_.states.push_back(std::move(k));
    out_.problem.tensorKinds.push_back(std::move(kind));
    return it->second;
  }

  uint32_t addTensor(Type type, uint32_t placement, Value value) {
    out_.problem.tensors.push_back({tensorKind(type, placement), 0, 1});
    out_.values.push_back(value);
    return static_cast<uint32_t>(out_.problem.tensors.size() - 1);
  }

  /// The tensor as ops of a placement see it: another one where it has to travel.
  uint32_t tensorFor(Value v, uint32_t placement) {
    const uint32_t own = tensorOf_.lookup(v), from = out_.states[out_.problem.tensors[own].kind].placement;
    if (from == placement) return own;
    auto [it, fresh] = transferred_.insert({{own, placement}, 0});
    if (!fresh) return it->second;
    const uint32_t there = addTensor(v.getType(), placement, v);
    it->second = there;
    const KindStates &a = out_.states[out_.problem.tensors[own].kind],
                     &b = out_.states[out_.problem.tensors[there].kind];
    auto [kindIt, freshKind] =
        transferKinds_.insert({{out_.problem.tensors[own].kind, out_.problem.tensors[there].kind},
                               static_cast<uint32_t>(out_.problem.opKinds.size())});
    if (freshKind) {
      OpKind kind;
      const Placement &source = out_.placements[from], &target = out_.placements[placement];
      const MeshLinks here = prices_.linksOf(from, placement), there = prices_.linksOf(placement, from);
      for (uint32_t s = 0; s < a.states.size(); ++s)
        for (uint32_t t = 0; t < b.states.size(); ++t) {
          if (hasPartial(b.states[t])) continue;
          double seconds = 0;
          for (const BoxingOp &step :
               boxingPath(a.desc.shape(), a.desc.data_type(), a.states[s], source, b.states[t], target, here, there))
            seconds += boxingSeconds(step, step.source == source ? here : there);
          kind.signatures.push_back({{s}, {t}, seconds});
        }
      out_.problem.opKinds.push_back(std::move(kind));
    }
    out_.problem.ops.push_back({kindIt->second, {own}, {there}});
    out_.ops.push_back(nullptr);
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
    out_.problem.ops.push_back(std::move(node));
    out_.ops.push_back(op);
    return success();
  }

  FailureOr<uint32_t> kindOf(Operation *op, uint32_t placement) {
    StatePins::OpPins pins = pins_.of(op);
    for (auto &[slot, states] : pins.states) {
      const std::vector<int64_t> &dims = out_.placements[placement].dims;
      if (isBroadcast(states)) states = broadcastStates(dims.size());
      if (states.size() != dims.size())
        return refuse(op, pins,
                      " has " + std::to_string(states.size()) + " states, and op " + ir::opName(op) + " is on " +
                          out_.placements[placement].toString());
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
    auto [it, fresh] = opKinds_.try_emplace(text, static_cast<uint32_t>(out_.problem.opKinds.size()));
    if (!fresh) return it->second;
    out_.problem.opKinds.emplace_back();
    OpKind kind;
    if (failed(user ? userKind(user, placement, pins, asItIs, &kind)
                    : structuralKind(op, placement, pins, asItIs, &kind)))
      return failure();
    out_.problem.opKinds[it->second] = std::move(kind);
    return it->second;
  }

  static InFlightDiagnostic refuse(Operation *op, const StatePins::OpPins &pins, const std::string &why) {
    return pins.isAsked ? emitRequestFinding(op->getLoc(), "OPC0311", pins.text + why)
                        : emitFinding(op->getLoc(), "OPC0311", pins.text + why);
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
    const KindStates &k = out_.states[tensorKind(type, placement)];
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
    return refuse(op, pins,
                  ": " + k.desc.toString() + " cannot be " + toString(*pin) + " on " +
                      out_.placements[placement].toString());
  }

  LogicalResult userKind(ir::UserOp op, uint32_t placement, const StatePins::OpPins &pins,
                         const std::vector<bool> &asItIs, OpKind *kind) {
    const user_op::OpDef &def = *op.def();
    auto instance = ir::toInstance(op, def);
    const std::vector<int64_t> &dims = out_.placements[placement].dims;
    auto signatures = ndSignaturesOf(*instance, dims);
    if (!signatures) return emitStatus(op, signatures.status()), failure();
    const size_t inputs = op.getArgs().size(), slots = inputs + op.getOuts().size();
    std::vector<const KindStates *> kinds;
    std::vector<uint32_t> kindIndex;
    for (size_t i = 0; i < slots; ++i)
      kindIndex.push_back(
          tensorKind(i < inputs ? op.getArgs()[i].getType() : op.getOuts()[i - inputs].getType(), placement));
    for (uint32_t i : kindIndex) kinds.push_back(&out_.states[i]);
    const Placement &here = out_.placements[placement];
    const MeshLinks links = prices_.linksOf(placement);
    // A cross-entropy can also be made of parts that work on pieces of the classes.
    std::vector<double> reductions(signatures->size(), 0);
    if (maySplitClasses(op))
      for (size_t i = 0, n = signatures->size(); i < n; ++i)
        for (uint64_t split = 1; split < uint64_t{1} << dims.size(); ++split)
          if (auto states = splitClassStates(op, (*signatures)[i].states, split)) {
            reductions.push_back(splitClassSeconds(op, *states, split, here, links));
            signatures->push_back({std::move(*states)});
          }
    // An update that needs norms of its whole model can also be given them.
    for (CompositeSignature &s : splitUpdateSignatures(op, *instance, here, links, prices_.device)) {
      reductions.push_back(s.seconds);
      signatures->push_back(std::move(s.signature));
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
      s.seconds = opSeconds(local, prices_.device) + reductions[n];
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
    error.attachNote() << "signatures on " << out_.placements[placement].toString() << ":" << rejected;
    return error;
  }

  Block &block_;
  const MeshRequest &request_;
  const MeshPrices &prices_;
  StatePins pins_;
  SignatureProblem out_;
  llvm::DenseMap<OpOperand *, WritersBefore> afterWrites_;
  llvm::DenseMap<std::pair<Type, uint32_t>, uint32_t> tensorKinds_;
  llvm::StringMap<uint32_t> opKinds_;
  llvm::DenseMap<Value, uint32_t> tensorOf_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> transferred_, transferKinds_;
};

} // namespace

FailureOr<SignatureProblem> makeSignatureProblem(ModuleOp module, const MeshRequest &request) {
  return ProblemMaker(module, request).run();
}

} // namespace opc
