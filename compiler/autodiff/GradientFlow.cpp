// Which tensors a gradient passes through on its way from the losses to the wanted tensors, and where it stops.
// SPDX-License-Identifier: Apache-2.0
#include "GradientFlow.h"
#include "AttrBridge.h"
#include "ControlDependence.h"
#include "ControlOp.h"
#include "EmitStatus.h"
#include "GradientGeneration.h"
#include "Graph.h"
#include "Locations.h"
#include "NearestNames.h"

#include <deque>
#include <fnmatch.h>

using namespace mlir;

namespace opc {
namespace {

bool isFloating(Value v) {
  auto tensor = dyn_cast<RankedTensorType>(v.getType());
  return tensor && IsFloatingDataType(ir::dataType(tensor.getElementType())); // not what is only stored
}

/// What the definition's SetInputArgModifyFn says of each operand.
std::vector<user_op::InputBlobModifier> modifiersOf(ir::UserOp op, const user_op::OpDef &def) {
  std::vector<user_op::InputBlobModifier> modifiers(op.getArgs().size());
  if (!def.modifyInputs) return modifiers;
  user_op::InputBlobModifier absent; // rules may name optional inputs that the op does not have
  def.modifyInputs(
      [&](const std::string &arg, int32_t index) -> user_op::InputBlobModifier * {
        const auto number = op.inputNumber(arg, index);
        return number ? &modifiers[*number] : &absent;
      },
      user_op::UserOpConfWrapper(ir::toOpConf(op)));
  return modifiers;
}

/// Which results carry a gradient, by the definition's SetOutputArgModifyFn and their types.
std::vector<bool> differentiableResults(ir::UserOp op, const user_op::OpDef &def) {
  std::vector<user_op::OutputBlobModifier> modifiers(op.getOuts().size());
  if (def.modifyOutputs) {
    user_op::OutputBlobModifier absent;
    def.modifyOutputs(
        [&](const std::string &arg, int32_t index) -> user_op::OutputBlobModifier * {
          const auto number = op.outputNumber(arg, index);
          return number ? &modifiers[*number] : &absent;
        },
        user_op::UserOpConfWrapper(ir::toOpConf(op)));
  }
  std::vector<bool> carries;
  for (auto [modifier, v] : llvm::zip_equal(modifiers, op.getOuts()))
    carries.push_back(modifier.requiresGrad && isFloating(v));
  return carries;
}

std::string place(Operation *op) {
  const ir::OpLocation l = ir::readLocation(op->getLoc());
  return l.line ? "  " + l.file + ":" + std::to_string(l.line) + ":" + std::to_string(l.column) : "";
}

std::string describeOp(ir::UserOp op) { return ir::opName(op) + " (" + op.getOpType().str() + ")"; }

} // namespace

/// Adds the results of an op that a gradient may pass to what is active; whether there are any.
bool GradientFlow::activates(ir::UserOp op, const user_op::OpDef &def) {
  bool carries = false;
  const auto add = [&](Value v) { active_.insert(v), carries = true; };
  if (controlKind(def.name) != ControlKind::kNone) {
    if (!texts_) return false;
    auto depends = known_ ? known_->lookup(op) : std::vector<std::vector<bool>>();
    if (depends.empty()) depends = controlDependence(op, *texts_);
    if (known_) (*known_)[op] = depends;
    control_[op] = depends;
    std::vector<bool> pass(op.getArgs().size());
    for (auto [k, v] : llvm::enumerate(op.getOuts()))
      for (auto [j, x] : llvm::enumerate(op.getArgs())) {
        if (!depends[k][j]) continue;
        pass[j] = true;
        if (active_.contains(x)) add(v);
      }
    restricted_[op] = std::move(pass);
    return carries;
  }
  for (auto [v, differentiable] : llvm::zip_equal(op.getOuts(), differentiableResults(op, def)))
    if (differentiable) add(v);
  return carries;
}

/// Whether a result on which a loss depends depends on the operand.
bool GradientFlow::reaches(ir::UserOp op, unsigned operand) const {
  const auto depends = control_.find(op);
  for (auto [k, v] : llvm::enumerate(op.getOuts()))
    if (useful_.contains(v) && (depends == control_.end() || depends->second[k][operand])) return true;
  return false;
}

GradientFlow::GradientFlow(ModuleOp module, ArrayRef<Value> losses, ArrayRef<Value> wanted, const GraphTexts *texts,
                           ControlDependences *known)
    : texts_(texts), known_(known) {
  active_.insert(wanted.begin(), wanted.end());
  useful_.insert(losses.begin(), losses.end());
  std::vector<ir::UserOp> activeOps;
  for (auto op : graphBlock(module).getOps<ir::UserOp>()) {
    if (llvm::none_of(op.getArgs(), [&](Value v) { return active_.contains(v); })) continue;
    const user_op::OpDef *def = op.def();
    if (!def || def->noGrad) continue;
    if (def->modifyInputs) {
      std::vector<bool> pass;
      for (const auto &m : modifiersOf(op, *def)) pass.push_back(m.requiresGrad);
      bool open = false;
      for (unsigned i = 0; i < op.getArgs().size(); ++i) open |= pass[i] && active_.contains(op.getArgs()[i]);
      restricted_[op] = std::move(pass);
      if (!open) continue;
    }
    if (activates(op, *def)) activeOps.push_back(op);
  }
  for (ir::UserOp op : llvm::reverse(activeOps)) {
    if (llvm::none_of(op.getOuts(), [&](Value v) { return useful_.contains(v); })) continue;
    for (unsigned i = 0; i < op.getArgs().size(); ++i)
      if (active_.contains(op.getArgs()[i]) && passes(op, i) && reaches(op, i)) useful_.insert(op.getArgs()[i]);
    path_.push_back(op);
  }
  std::reverse(path_.begin(), path_.end());
}

bool GradientFlow::passes(ir::UserOp op, unsigned operand) const {
  auto it = restricted_.find(op);
  return (it == restricted_.end() || it->second[operand]) && isFloating(op.getArgs()[operand]);
}

std::string GradientFlow::blocked(ir::UserOp op, unsigned operand) const {
  const user_op::OpDef *def = op.def();
  if (!def) return "unknown op type";
  if (def->noGrad) return "the op is not differentiable" + (def->noGradReason.empty() ? "" : ": " + def->noGradReason);
  if (!isFloating(op.getArgs()[operand])) return "the operand is not of a floating-point type";
  if (control_.count(op) && !passes(op, operand)) return "nothing that its graphs make depends on it differentiably";
  if (!passes(op, operand)) return "the op declares that this input takes no gradient";
  if (llvm::none_of(op.getOuts(), isFloating)) return "its results are not of a floating-point type";
  if (llvm::none_of(differentiableResults(op, *def), [](bool carries) { return carries; }))
    return "the op declares that its results take no gradient";
  return "";
}

bool isWritten(Value variable) {
  for (OpOperand &use : variable.getUses()) {
    const user_op::OpDef *def = ir::definitionOf(use.getOwner());
    if (def && def->modifyInputs &&
        modifiersOf(cast<ir::UserOp>(use.getOwner()), *def)[use.getOperandNumber()].isMutable)
      return true;
  }
  return false;
}

Value findLoss(ModuleOp module, const std::string &name, bool isOfGraph) {
  Block &block = graphBlock(module);
  Value found;
  Operation *several = nullptr;
  for (auto out : block.getOps<ir::OutputOp>()) // a tensor of that name may be another one
    if (out.getName() == name) found = out.getIn();
  for (Operation &op : block) {
    if (found) break;
    for (Value v : op.getResults())
      if (ir::tensorName(v) == name) found = v;
    if (op.getNumResults() > 0 && ir::opName(&op) == name) {
      if (op.getNumResults() == 1)
        found = op.getResult(0);
      else
        several = &op;
    }
  }
  auto fail = [&](Location loc, const std::string &message, const std::string &help) {
    emitFinding(loc, "OPC0502", message, help);
    return Value();
  };
  if (!found) {
    if (several)
      return fail(several->getLoc(), "the loss '" + name + "' is an op with several outputs",
                  "name one of them: " + ir::tensorName(several->getResult(0)));
    std::vector<std::string> names;
    for (Operation &op : block) {
      if (auto out = dyn_cast<ir::OutputOp>(&op)) names.push_back(out.getName().str());
      for (Value v : op.getResults()) names.push_back(ir::tensorName(v));
      if (names.size() > 20000) break;
    }
    const std::string help =
        didYouMean(name, names, "name a tensor (fc1/out_0), an output, or an op with one output", "", 2);
    const std::string none = ": the graph has no tensor, output or op of that name";
    if (isOfGraph) return fail(module.getLoc(), "loss_lbn '" + name + "'" + none, help);
    emitRequestFinding(module.getLoc(), "OPC0502", "--loss " + name + none, help);
    return {};
  }
  if (!isFloating(found)) {
    user_op::TensorDesc desc;
    const bool known = ir::describe(found.getType(), &desc);
    return fail(found.getLoc(),
                "the loss '" + name + "' is " + (known ? desc.toString() : "of unknown type") +
                    "; only floating-point tensors have gradients",
                "insert a cast, or name another tensor");
  }
  return found;
}

FailureOr<std::vector<WantedGradient>> findWanted(ModuleOp module, const std::vector<std::string> &globs,
                                                  const std::string &option) {
  std::vector<WantedGradient> wanted;
  std::vector<bool> hit(globs.size(), false);
  std::vector<std::string> names;
  llvm::DenseSet<Value> taken;
  bool failedOnce = false;
  for (Operation &op : graphBlock(module)) {
    auto variable = dyn_cast<ir::VariableOp>(&op);
    const bool source = variable || isa<ir::InputOp>(&op);
    if (globs.empty()) {
      if (variable && variable.getTrainable() && isFloating(variable.getOut()))
        wanted.push_back({variable.getName().str(), variable.getOut()});
      continue;
    }
    for (Value v : op.getResults()) {
      const std::string tensor = ir::tensorName(v), name = source ? ir::opName(&op) : tensor;
      if (names.size() < 20000) names.push_back(name);
      for (size_t g = 0; g < globs.size(); ++g) {
        const bool exact = globs[g] == name || globs[g] == tensor;
        // A glob means sources: "*" is every variable and input, not every tensor in between.
        if (!exact && !(source && fnmatch(globs[g].c_str(), name.c_str(), 0) == 0)) continue;
        if (!isFloating(v)) {
          if (!exact) continue;
          hit[g] = true;
          failedOnce = true;
          user_op::TensorDesc desc;
          const bool known = ir::describe(v.getType(), &desc);
          emitFinding(op.getLoc(), "OPC0503",
                      "'" + globs[g] + "' is " + (known ? desc.toString() : "of unknown type") +
                          "; only floating-point tensors have gradients",
                      "leave it out of " + option);
          continue;
        }
        hit[g] = true;
        if (taken.insert(v).second) wanted.push_back({name, v});
      }
    }
  }
  for (size_t g = 0; g < globs.size(); ++g) {
    if (hit[g]) continue;
    failedOnce = true;
    emitRequestFinding(module.getLoc(), "OPC0503",
                       option + " " + globs[g] + " matches no floating-point variable, input or tensor",
                       didYouMean(globs[g], names, "opc show GRAPH --what tensors lists them", "", 2));
  }
  if (!failedOnce && wanted.empty()) {
    failedOnce = true;
    emitFinding(module.getLoc(), "OPC0503", "the graph has no trainable floating-point variable",
                "name inputs or other tensors with --wrt, for example --wrt x");
  }
  if (failedOnce) return failure();
  return wanted;
}

std::vector<std::string> explainGradient(ModuleOp module, Value loss, Value tensor, const GraphTexts *texts,
                                         bool *reaches) {
  std::vector<std::string> lines;
  GradientFlow flow(module, {loss}, {tensor}, texts);
  *reaches = flow.carries(tensor);
  // Shortest way from the tensor to the loss, over all ops; when the gradient flows, over those that carry it.
  llvm::DenseMap<Value, std::pair<Operation *, unsigned>> through; // value -> op that made it on the way, operand used
  std::deque<Value> queue{tensor};
  through[tensor] = {nullptr, 0};
  while (!queue.empty() && !through.count(loss)) {
    Value v = queue.front();
    queue.pop_front();
    for (OpOperand &use : v.getUses()) {
      auto op = dyn_cast<ir::UserOp>(use.getOwner());
      if (!op) continue;
      if (*reaches && !flow.passes(op, use.getOperandNumber())) continue;
      for (Value y : op.getOuts())
        if ((!*reaches || flow.carries(y)) &&
            through.try_emplace(y, std::make_pair(op.getOperation(), use.getOperandNumber())).second)
          queue.push_back(y);
    }
  }
  if (loss != tensor && !through.count(loss)) {
    lines.push_back(ir::tensorName(loss) + " does not depend on " + ir::tensorName(tensor));
    return lines;
  }
  lines.push_back(ir::tensorName(loss));
  for (Value v = loss; v != tensor;) {
    auto [made, operand] = through[v];
    auto op = cast<ir::UserOp>(made);
    const std::string reason = flow.blocked(op, operand);
    Value from = op.getArgs()[operand];
    lines.push_back((reason.empty() ? "<- " : "X  ") + describeOp(op) + " <- " + ir::tensorName(from) + place(op) +
                    (reason.empty() ? "" : "   stops here: " + reason));
    v = from;
  }
  return lines;
}

void keepBackwardOnly(ModuleOp module) {
  Block &block = graphBlock(module);
  std::vector<Operation *> forward;
  std::vector<Operation *> outputs;
  for (Operation &op : block) {
    if (isa<ir::UserOp, ir::ConstantOp>(&op) && ir::roleOf(&op) == ir::Role::kForward) forward.push_back(&op);
    if (isa<ir::OutputOp>(&op)) outputs.push_back(&op);
  }
  llvm::DenseSet<Operation *> isForward(forward.begin(), forward.end());
  for (Operation *o : outputs) {
    Operation *maker = cast<ir::OutputOp>(o).getIn().getDefiningOp();
    if (isForward.contains(maker) || !isa<ir::UserOp>(maker)) o->erase();
  }
  OpBuilder builder(module.getContext());
  builder.setInsertionPointToStart(&block);
  for (Operation *op : forward)
    for (Value v : op->getResults()) {
      SmallVector<OpOperand *> uses;
      for (OpOperand &use : v.getUses())
        if (!isForward.contains(use.getOwner())) uses.push_back(&use);
      if (uses.empty()) continue;
      std::string name = ir::tensorName(v);
      std::replace(name.begin(), name.end(), '/', '.');
      auto input = ir::InputOp::create(builder, ir::renamed(op->getLoc(), name), v.getType(), name);
      for (OpOperand *use : uses) use->set(input.getOut());
    }
  for (Operation *op : llvm::reverse(forward)) op->erase();
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isa<ir::InputOp, ir::VariableOp>(&op) && op.use_empty()) op.erase();
}

} // namespace opc
