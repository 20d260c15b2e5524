// Reverse accumulation: the gradient subgraph of a loss, as ordinary ops.
// SPDX-License-Identifier: Apache-2.0
#include "GradientGeneration.h"
#include "AttrBridge.h"
#include "BuiltIn.h"
#include "ControlGradients.h"
#include "ControlOp.h"
#include "DerivedGradient.h"
#include "EmitStatus.h"
#include "GradientFlow.h"
#include "GraphBuilder.h"
#include "Locations.h"
#include "NearestNames.h"
#include "PluginCode.h"
#include "PluginOpeners.h"
#include "PluginOverrides.h"
#include "TextParts.h"

#include "opc/Gradient.h"

#include <map>
#include <set>

using namespace mlir;

namespace opc {
namespace {

using user_op::OpConf;
using user_op::OpDef;

/// The configuration that rules see: with the tensors' own names.
OpConf forwardConf(ir::UserOp op) {
  OpConf conf = ir::toOpConf(op);
  unsigned next = 0;
  for (auto &b : conf.outputs)
    for (auto &t : b.tensors) t = ir::tensorName(op.getOuts()[next++]);
  return conf;
}

/// For an op without a gradient rule.
std::string howToGiveARule(const OpDef &def) {
  if (isDefinedInPython(def.origin.library))
    return "define one with @NAME.grad or @NAME.grad_graph, where NAME is the function that is the op, or say with "
           "NAME.no_gradient(\"why\") that the gradient is zero";
  return "register one with REGISTER_USER_OP_GRAD(\"" + def.name +
         "\"), or declare the op NoGrad() when its gradient is zero; opc ops --missing grad lists such ops";
}

/// For a gradient rule that leaves an input out.
std::string howToLeaveOut(const OpDef &def) {
  return std::string("bind one, or declare the input without gradient: ") +
         (isDefinedInPython(def.origin.library) ? "no_grad= of opc.op"
                                                : "SetInputArgModifyFn with set_requires_grad(false)");
}

constexpr size_t kMostAddends = 8192; // of one add_n: an op has a limit of tensors

class Generator {
public:
  Generator(ModuleOp module, const Registry &registry, GradientFlow &flow, OpGraphs *graphs)
      : registry_(registry), flow_(flow), build_(module, registry), graphs_(graphs) {}

  /// The sum of what has arrived for a value; null when nothing has.
  FailureOr<Value> gradientOf(Value v) {
    auto it = pending_.find(v);
    if (it == pending_.end()) return Value();
    auto &parts = it->second;
    while (parts.size() > 1) {
      Operation *producer = v.getDefiningOp();
      OpConf sum{ir::opName(producer) + "_grad_sum", "add_n", {{"in", {}}}, {}, {}};
      const auto end = parts.begin() + static_cast<ptrdiff_t>(std::min(parts.size(), kMostAddends));
      for (auto p = parts.begin(); p != end; ++p) sum.inputs[0].tensors.push_back(build_.nameOf(*p));
      FailureOr<Value> total = add(std::move(sum), producer);
      if (failed(total)) return failure();
      parts.erase(parts.begin(), end - 1);
      parts[0] = *total;
    }
    return parts[0];
  }

  LogicalResult seed(Value loss, Value given) {
    Operation *producer = loss.getDefiningOp();
    if (!given) {
      OpConf ones{
          ir::opName(producer) + "_grad_one", "constant_like", {bindTensor("like", build_.nameOf(loss))}, {}, {}};
      ones.attrs["floating_value"] = AttrValue(1.0);
      ones.attrs["is_floating_value"] = AttrValue(true);
      FailureOr<Value> made = add(std::move(ones), producer);
      if (failed(made)) return failure();
      given = *made;
    }
    pending_[loss].push_back(given);
    return success();
  }

  LogicalResult differentiate(ir::UserOp op);

  FailureOr<Value> zeroLike(Value v) {
    Operation *producer = v.getDefiningOp();
    return add({ir::opName(producer) + "_grad_zero", "zero_like", {bindTensor("like", build_.nameOf(v))}, {}, {}},
               producer);
  }

private:
  friend class RuleHost;
  /// An op of one output, at the op that it is for.
  FailureOr<Value> add(OpConf conf, Operation *at) {
    auto made = build_.add(std::move(conf), at);
    if (!made) return emitStatus(at, made.status()), failure();
    return *made;
  }
  LogicalResult applyRule(ir::UserOp op, const OpDef &def, const user_op::GradDef &grad);
  LogicalResult applyDerived(ir::UserOp op, const OpDef &def);
  LogicalResult applyControl(ir::UserOp op, ControlKind kind);
  bool wants(Value v) const { return flow_.carries(v); }
  /// Takes the gradient for an operand; checks its type.
  LogicalResult contribute(ir::UserOp op, unsigned operand, const std::string &arg, Value gradient) {
    Value x = op.getArgs()[operand];
    if (gradient.getType() != x.getType()) {
      const user_op::TensorDesc have = ir::descOf(gradient), want = ir::descOf(x);
      emitStatus(op, Status(StatusCode::kInvalidGraph, "OPC0504",
                            "the gradient rule of " + op.getOpType().str() + " gives " + have.toString() + " (" +
                                build_.nameOf(gradient) + ") for input '" + arg + "', which is " + want.toString())
                         .withHelp("a gradient has its input's shape and dtype; sum over broadcast dimensions with "
                                   "reduce_sum_like, convert with cast_like"));
      return failure();
    }
    pending_[x].push_back(gradient);
    return success();
  }

  const Registry &registry_;
  GradientFlow &flow_;
  GraphBuilder build_;
  OpGraphs *graphs_;
  llvm::DenseMap<Value, SmallVector<Value, 1>> pending_;
};

/// What a rule talks to. Bindings are resolved when the rule has returned: rules of the older style bind the outputs of
/// ops before they add them.
class RuleHost final : public user_op::GradientHost {
public:
  RuleHost(Generator &generator, ir::UserOp op, const user_op::Origin &origin)
      : g_(generator), op_(op), origin_(origin) {
    for (Value v : op.getArgs()) inputs_.push_back(ir::descOf(v));
    for (Value v : op.getOuts()) outputs_.push_back(ir::descOf(v));
  }

  bool needsGradient(const std::string &arg, int32_t index) const override {
    const auto k = op_.inputNumber(arg, index);
    // InputGradBind() binds nothing where this is false. Inputs that may be left out are asked for, too.
    if (!k && llvm::none_of(op_.def()->inputs, [&](const auto &input) { return input.name == arg; }))
      foreign_.insert(arg);
    return k && g_.flow_.passes(op_, *k) && g_.wants(op_.getArgs()[*k]);
  }
  bool hasGradient(const std::string &arg, int32_t index) const override {
    const auto k = op_.outputNumber(arg, index);
    return k && g_.pending_.count(op_.getOuts()[*k]);
  }
  std::string gradientOfOutput(const std::string &arg, int32_t index) override {
    const auto k = op_.outputNumber(arg, index);
    // No exception crosses from the host into a plugin: an error is kept, and an empty name fails whatever uses it.
    if (!k) {
      fail(Status(StatusCode::kInvalidGraph, "OPC0504",
                  "the op has no output '" + arg + "' with index " + std::to_string(index)));
      return "";
    }
    Value y = op_.getOuts()[*k];
    if (auto it = g_.pending_.find(y); it != g_.pending_.end()) return g_.build_.nameOf(it->second[0]);
    auto zero = zeros_.find(*k);
    if (zero != zeros_.end()) return zero->second;
    auto made = g_.build_.add(
        {ir::opName(op_) + "_grad_zero_" + arg, "zero_like", {bindTensor("like", g_.build_.nameOf(y))}, {}, {}}, op_);
    if (!made) {
      fail(made.status());
      return "";
    }
    return zeros_[*k] = g_.build_.nameOf(*made);
  }
  void bindGradientOfInput(const std::string &arg, int32_t index, const std::string &tensor) override {
    bindings_.push_back({arg, index, tensor});
  }
  const user_op::TensorDesc *findDesc(const std::string &arg, int32_t index) const override {
    if (auto k = op_.inputNumber(arg, index)) return &inputs_[*k];
    if (auto k = op_.outputNumber(arg, index)) return &outputs_[*k];
    return nullptr;
  }
  Status emit(OpConf *conf) override {
    for (auto &b : conf->inputs)
      for (auto &t : b.tensors)
        if (auto it = renamed_.find(t); it != renamed_.end()) t = it->second;
    conf->type = nameWithin(g_.registry_, origin_, conf->type);
    const OpConf asked = *conf;
    Status s = g_.build_.addOp(conf, op_);
    if (!s.isOk()) {
      fail(s);
      return s;
    }
    // The name may have been taken (a second derivative, a second rule): later uses follow.
    if (asked.name != conf->name)
      for (const auto &b : conf->outputs)
        for (size_t i = 0; i < b.tensors.size(); ++i)
          renamed_[asked.name + "/" + b.name + "_" + std::to_string(i)] = b.tensors[i];
    return Status::ok();
  }

  const Status &error() const { return failure_; }

  /// Hands the bindings over, after the rule. `strict`: an input that needs a gradient and has got
  /// none, which OneFlow allows, is worth a word.
  LogicalResult settle(bool strict, const std::string &rule) {
    llvm::SmallDenseSet<unsigned, 4> bound;
    auto complain = [&](const std::string &message, const std::string &help) {
      emitStatus(op_, Status(StatusCode::kInvalidGraph, "OPC0504", message).withHelp(help));
      return failure();
    };
    for (const Binding &b : bindings_) {
      const auto k = op_.inputNumber(b.arg, b.index);
      const std::string which = "input '" + b.arg + "' (index " + std::to_string(b.index) + ")";
      if (!k)
        return complain(rule + " binds a gradient to " + which + ", which the op does not have",
                        "the names are those of the op's definition");
      if (!needsGradient(b.arg, b.index)) continue;
      if (!bound.insert(*k).second)
        return complain(rule + " binds the gradient of " + which + " twice",
                        "add the parts with add_n and bind the sum");
      auto renamed = renamed_.find(b.tensor);
      Value v = g_.build_.findTensor(renamed == renamed_.end() ? b.tensor : renamed->second);
      if (!v)
        return complain(rule + " binds the tensor '" + b.tensor + "' to " + which + ", but no op makes it",
                        "define the op and use its output's name");
      if (g_.contribute(op_, *k, b.arg, v).failed()) return failure();
    }
    if (!strict) return success();
    if (!foreign_.empty())
      return complain(
          rule + " asks for the gradient of input '" + *foreign_.begin() + "', which the op does not have",
          didYouMeanAmong(*foreign_.begin(), namesOf(op_.def()->inputs), "the op has no inputs", "the op has "));
    op_.forEachInput([&, flat = 0u](StringRef arg, int32_t i, Value) mutable {
      if (bound.count(flat++) || !needsGradient(arg.str(), i)) return;
      emitFinding(op_.getLoc(), "OPC0510",
                  rule + " binds no gradient to input '" + arg + "' (index " + llvm::Twine(i) +
                      "); it is taken as zero",
                  howToLeaveOut(*op_.def()), DiagnosticSeverity::Warning);
    });
    return success();
  }

private:
  /// The first error is the cause of those that follow.
  void fail(const Status &s) {
    if (failure_.isOk()) failure_ = s;
  }
  struct Binding {
    std::string arg;
    int32_t index;
    std::string tensor;
  };
  Generator &g_;
  mutable ir::UserOp op_;
  const user_op::Origin &origin_; // of the rule
  std::vector<user_op::TensorDesc> inputs_, outputs_;
  std::vector<Binding> bindings_;
  mutable std::set<std::string> foreign_; // inputs that were asked for and are in no definition
  std::map<unsigned, std::string> zeros_;
  std::map<std::string, std::string> renamed_;
  Status failure_;
};

LogicalResult Generator::differentiate(ir::UserOp op) {
  bool any = false;
  for (Value v : op.getOuts()) {
    auto sum = gradientOf(v);
    if (failed(sum)) return failure();
    any |= static_cast<bool>(*sum);
  }
  bool wanted = false;
  for (auto [i, v] : llvm::enumerate(op.getArgs())) wanted |= wants(v) && flow_.passes(op, static_cast<unsigned>(i));
  if (!any || !wanted) return success();
  const OpDef *def = op.def();
  if (const ControlKind kind = controlKind(def->name); graphs_ && graphs_->texts && kind != ControlKind::kNone)
    return applyControl(op, kind);
  if (const user_op::GradDef *grad = registry_.findGrad(def->name)) return applyRule(op, *def, *grad);
  if (def->scalar) return applyDerived(op, *def);
  emitStatus(op, Status(StatusCode::kInvalidGraph, "OPC0501",
                        "op type '" + def->name + "' has no gradient rule, and the gradient of the loss must pass it")
                     .withHelp(howToGiveARule(*def)));
  return failure();
}

LogicalResult Generator::applyRule(ir::UserOp op, const OpDef &def, const user_op::GradDef &grad) {
  RuleHost host(*this, op, grad.origin);
  const std::string rule =
      "the gradient rule of " + def.name + " (" + grad.origin.file + ":" + std::to_string(grad.origin.line) + ")";
  Status s;
  const PluginRule here(def.name, grad.origin, "the gradient rule");
  if (grad.generate) {
    user_op::BackwardOpConfContext ctx(forwardConf(op), &host);
    s = grad.generate(&ctx);
  } else if (grad.generateOld) {
    const user_op::UserOpWrapper wrapper(forwardConf(op), &host);
    Status inner;
    s = grad.generateOld(wrapper, [&](const user_op::UserOpConfWrapper &made) {
      OpConf conf = made.conf();
      if (inner.isOk()) inner = host.emit(&conf);
    });
    if (s.isOk()) s = inner;
  } else {
    s = Status(StatusCode::kInvalidGraph, "OPC0504", "it was registered without a function");
  }
  if (s.isOk()) s = host.error();
  if (!s.isOk()) {
    const Status &cause = host.error().isOk() ? s : host.error();
    emitStatus(
        op, Status(StatusCode::kInvalidGraph, "OPC0504", rule + " failed: " + cause.message()).withHelp(cause.help()));
    return failure();
  }
  // The rules of the built-in ops are tested against differences; there an unbound input is one whose gradient is zero.
  return host.settle(!isBuiltIn(def.origin), rule);
}

LogicalResult Generator::applyControl(ir::UserOp op, ControlKind kind) {
  const ControlHost host{
      build_, *graphs_,
      [this](Value v) { // one: differentiate() has added them up
        auto arrived = pending_.find(v);
        return arrived == pending_.end() ? Value() : arrived->second[0];
      },
      [this, op](unsigned operand) mutable { return wants(op.getArgs()[operand]) && flow_.passes(op, operand); },
      [this, op](unsigned operand, Value gradient) { return contribute(op, operand, "in", gradient); }};
  return kind == ControlKind::kIf ? differentiateIf(op, host) : differentiateLoop(op, host);
}

LogicalResult Generator::applyDerived(ir::UserOp op, const OpDef &def) {
  const OpConf forward = forwardConf(op);
  Value y = op.getOuts()[0];
  auto dy = gradientOf(y);
  if (failed(dy)) return failure();
  auto outType = cast<RankedTensorType>(y.getType());
  for (unsigned k = 0; k < op.getArgs().size(); ++k) {
    Value x = op.getArgs()[k];
    if (!wants(x) || !flow_.passes(op, k)) continue;
    auto derived = registry_.derivedGradient(def, static_cast<int32_t>(k));
    if (!derived) return emitStatus(op, derived.status()), failure();
    if (!*derived) continue; // zero everywhere
    const DerivedGradient &d = **derived;
    const std::string &arg = def.inputs[k].name;
    OpConf conf{forward.name + "_grad_" + arg, d.def.name, {}, {}, forward.attrs};
    for (size_t i = 0; i < d.reads.size(); ++i)
      conf.inputs.push_back(
          bindTensor(d.def.inputs[i].name, build_.nameOf(op.getArgs()[static_cast<unsigned>(d.reads[i])])));
    conf.inputs.push_back(bindTensor("dy", build_.nameOf(*dy)));
    FailureOr<Value> gradient = add(std::move(conf), op);
    if (failed(gradient)) return failure();
    auto inType = cast<RankedTensorType>(x.getType());
    if (inType.getShape() != outType.getShape()) {
      std::vector<int32_t> axes;
      const int64_t lead = outType.getRank() - inType.getRank();
      for (int64_t a = 0; a < outType.getRank(); ++a)
        if (a < lead || (inType.getDimSize(static_cast<unsigned>(a - lead)) == 1 &&
                         outType.getDimSize(static_cast<unsigned>(a)) != 1))
          axes.push_back(static_cast<int32_t>(a));
      OpConf sum{forward.name + "_grad_" + arg + "_sum",
                 "reduce_sum_like",
                 {bindTensor("x", build_.nameOf(*gradient)), bindTensor("like", build_.nameOf(x))},
                 {},
                 {}};
      sum.attrs["axis"] = AttrValue(axes);
      gradient = add(std::move(sum), op);
      if (failed(gradient)) return failure();
    }
    if (contribute(op, k, arg, *gradient).failed()) return failure();
  }
  return success();
}

} // namespace

FailureOr<std::vector<GeneratedGradient>> generateGradients(ModuleOp module, const Registry &registry,
                                                            ArrayRef<Value> losses,
                                                            const std::vector<WantedGradient> &wanted,
                                                            ArrayRef<Value> seeds, OpGraphs *graphs) {
  SmallVector<Value> roots;
  for (const WantedGradient &w : wanted) roots.push_back(w.tensor);
  GradientFlow flow(module, losses, roots, graphs ? graphs->texts : nullptr);
  Generator generator(module, registry, flow, graphs);
  for (auto [i, loss] : llvm::enumerate(losses))
    if (flow.carries(loss) && failed(generator.seed(loss, seeds.empty() ? Value() : seeds[i]))) return failure();
  // Ops in reverse; the list is taken first because generation appends to the block. An op that fails leaves its
  // operands without a gradient, and the walk goes on: one run reports every op without a rule.
  bool failedOnce = false;
  for (ir::UserOp op : llvm::reverse(flow.path()))
    if (failed(generator.differentiate(op))) failedOnce = true;
  if (failedOnce) return failure();

  std::vector<GeneratedGradient> result;
  for (const WantedGradient &w : wanted) {
    auto gradient = generator.gradientOf(w.tensor);
    if (failed(gradient)) return failure();
    // On a path, but every rule on it said zero.
    if (!*gradient && flow.carries(w.tensor)) gradient = generator.zeroLike(w.tensor);
    if (failed(gradient)) return failure();
    result.push_back({w.name, w.tensor, *gradient});
  }
  return result;
}

} // namespace opc
