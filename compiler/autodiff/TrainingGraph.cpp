// From gradients to a training step: loss scale, accumulation, clipping, learning rate, optimizer.
// SPDX-License-Identifier: Apache-2.0
#include "TrainingGraph.h"
#include "AttrBridge.h"
#include "EmitStatus.h"
#include "GraphBuilder.h"
#include "Locations.h"
#include "TextParts.h"
#include "opc/Convert.h"

#include <cmath>
#include <fnmatch.h>
#include <utility>

using namespace mlir;

namespace opc {
namespace {

using user_op::OpConf;

/// Ops one after the other; the first error ends it.
class TrainingBuilder {
public:
  TrainingBuilder(ModuleOp module, const Registry &registry) : module_(module), build_(module, registry) {
    build_.role = ir::Role::kOptimizer;
  }

  bool failed() const { return !status_.isOk(); }
  const Status &status() const { return status_; }
  GraphBuilder &builder() { return build_; }

  struct Arg {
    std::string name;
    std::vector<Value> values;
  };
  /// The op's first result; null after an error, and for ops without results.
  Value op(const std::string &name, const std::string &type, const std::vector<Arg> &args,
           std::map<std::string, AttrValue> attrs = {}) {
    if (failed()) return {};
    OpConf conf{name, type, {}, {}, std::move(attrs)};
    for (const Arg &a : args) {
      if (a.values.empty() || !a.values[0]) continue; // optional
      conf.inputs.push_back({a.name, {}});
      for (Value v : a.values) conf.inputs.back().tensors.push_back(build_.nameOf(v));
    }
    ir::UserOp made;
    status_ = build_.addOp(&conf, nullptr, &made);
    if (failed() || made.getOuts().empty()) return {};
    return made.getOuts()[0];
  }

  /// A variable that begins as `value`.
  Value variable(const std::string &name, const user_op::TensorDesc &desc, double value) {
    Builder b(module_.getContext());
    return variable(name, desc, "constant_conf", b.getF32FloatAttr(static_cast<float>(value)));
  }
  /// A counter that begins at 0.
  Value counter(const std::string &name) {
    Builder b(module_.getContext());
    return variable(name, user_op::TensorDesc(Shape({1}), kInt64), "constant_int_conf", b.getI64IntegerAttr(0));
  }
  Value scalar(Value v, const char *type, double operand, const std::string &name) {
    return op(name, type, {{"in", {v}}},
              {{"has_float_operand", AttrValue(true)}, {"float_operand", AttrValue(operand)}});
  }
  Value integer(Value v, const char *type, int64_t operand, const std::string &name) {
    return op(name, type, {{"in", {v}}}, {{"has_int_operand", AttrValue(true)}, {"int_operand", AttrValue(operand)}});
  }
  LogicalResult finish() {
    if (!failed()) return success();
    emitStatus(module_, status_);
    return failure();
  }

private:
  Value variable(const std::string &name, const user_op::TensorDesc &desc, StringRef initializer, Attribute value) {
    if (failed()) return {};
    Builder b(module_.getContext());
    return build_.addVariable(name, desc,
                              ir::InitializerAttr::get(b.getContext(), b.getStringAttr(initializer),
                                                       b.getDictionaryAttr(b.getNamedAttr("value", value))));
  }

  ModuleOp module_;
  GraphBuilder build_;
  Status status_;
};

bool matches(const std::vector<std::string> &globs, const std::string &name) {
  for (const std::string &g : globs)
    if (g == name || fnmatch(g.c_str(), name.c_str(), 0) == 0) return true;
  return false;
}

/// Argument and variable-name suffix of the state that an update op keeps for each variable.
std::vector<std::string> stateOf(const OptimizerGroup &group) {
  auto flag = [&](const char *attr) {
    auto it = group.attrs.find(attr);
    const bool *b = it == group.attrs.end() ? nullptr : it->second.get<bool>();
    return b && *b;
  };
  const std::string &op = group.updateOp;
  if (op == "momentum_update" || op == "lars_update") return {"momentum"};
  if (op == "adam_update" || op == "lamb_update")
    return flag("amsgrad") ? std::vector<std::string>{"m", "v", "max_v"} : std::vector<std::string>{"m", "v"};
  if (op == "rmsprop_update")
    return flag("centered") ? std::vector<std::string>{"mean_square", "mean_gradient"}
                            : std::vector<std::string>{"mean_square"};
  if (op == "adagrad_update") return {"sum"};
  return {};
}

float floatAttr(const OptimizerGroup &group, const char *name, float otherwise) {
  auto it = group.attrs.find(name);
  const float *f = it == group.attrs.end() ? nullptr : it->second.get<float>();
  return f ? *f : otherwise;
}
double doubleAttr(const OptimizerGroup &group, const char *name, double otherwise) {
  auto it = group.attrs.find(name);
  const double *d = it == group.attrs.end() ? nullptr : it->second.get<double>();
  return d ? *d : otherwise;
}
bool boolAttr(const OptimizerGroup &group, const char *name, bool otherwise) {
  auto it = group.attrs.find(name);
  const bool *b = it == group.attrs.end() ? nullptr : it->second.get<bool>();
  return b ? *b : otherwise;
}

/// A number as an element of `type` has it.
double asElement(double v, DataType type) {
  switch (type) {
  case kFloat16: return static_cast<double>(numberOf(convertElement<float16>(v)));
  case kBFloat16: return static_cast<double>(numberOf(convertElement<bfloat16>(v)));
  case kFloat: return static_cast<double>(convertElement<float>(v));
  default: return v;
  }
}

/// Whether a static loss scale, and what undoes it, are numbers above 0 where they are multiplied by; if not, says so.
LogicalResult checkScale(Operation *op, double scale, double factor, const std::string &name, DataType type) {
  const double element = asElement(factor, type);
  if (element > 0 && std::isfinite(element)) return success();
  const std::string text = AttrValue(scale).toString(), typeName = dataTypeName(type);
  emitStatus(op,
             Status(StatusCode::kInvalidGraph, "OPC0507",
                    concat("the loss scale ", text, factor == scale ? " of " : " is undone for ", name, ", which is ",
                           typeName, factor == scale ? ", is " : ", by ", AttrValue(element).toString(), " there"))
                 .withHelp("give a scale that the types of the loss and of the variables have, such as 1024"));
  return failure();
}

/// What the steps of all groups share.
struct Step {
  Value trainStep;    // i64[1], counts updates
  Value skip;         // i64[1], null: never skip
  Value lossScale;    // dynamic: f32[1]; else null
  double unscale = 1; // what turns the summed, scaled gradients into the mean, unscaled ones (without lossScale)
};

struct Parameter {
  GeneratedGradient g;
  Value gradient;          // after accumulation
  Regularizer regularizer; // that is still to be added to it
};

class GroupUpdate {
public:
  GroupUpdate(TrainingBuilder &t, const OptimizerGroup &group, const Step &step, size_t number)
      : t_(t), group_(group), step_(step), suffix_(number ? "_" + std::to_string(number + 1) : "") {}

  void run(const std::vector<Parameter> &parameters) {
    // Beside variables in f32 those in f64 take what is in f32.
    const bool inDouble = !parameters.empty() && llvm::all_of(parameters, isDouble);
    Value scale = coefficient(parameters);
    const bool scaled = static_cast<bool>(scale);
    Value rate = learningRate(inDouble);
    Value correction1, correction2;
    const bool adam = group_.updateOp == "adam_update" || group_.updateOp == "lamb_update";
    if (adam && boolAttr(group_, "do_bias_correction", true)) {
      auto factor = [&](const char *name, float beta) {
        return t_.op(name + suffix_, "adam_bias_correction_factor", {{"train_step", {step_.trainStep}}},
                     {{"beta", AttrValue(beta)}, {"dtype", AttrValue(inDouble ? kDouble : kFloat)}});
      };
      correction1 = factor("bias_correction1", floatAttr(group_, "beta1", 0.9f));
      correction2 = factor("bias_correction2", floatAttr(group_, "beta2", 0.999f));
    }
    for (const Parameter &p : parameters) update(p, scale, scaled, rate, correction1, correction2);
  }

private:
  /// The factor for all gradients of the group, as a tensor; null when an attribute is enough.
  Value coefficient(const std::vector<Parameter> &parameters) {
    Value inverse; // 1 / loss scale
    if (step_.lossScale) inverse = t_.op("loss_unscale" + suffix_, "reciprocal", {{"x", {step_.lossScale}}});
    if (group_.clipNorm <= 0 || parameters.empty()) {
      if (inverse && step_.unscale != 1)
        inverse = t_.scalar(inverse, "scalar_mul", step_.unscale, "gradient_scale" + suffix_);
      return inverse;
    }
    // min(clip / norm, 1), on gradients that are still scaled: min(clip * rsqrt(sum of squares), unscale).
    Value squares = squareSum(parameters);
    Value root = t_.op("clip_rsqrt" + suffix_, "rsqrt", {{"x", {squares}}});
    Value ratio = t_.scalar(root, "scalar_mul", group_.clipNorm, "clip_ratio" + suffix_);
    if (!inverse)
      return t_.op("clip_factor" + suffix_, "clip_by_scalar_max", {{"x", {ratio}}},
                   {{"floating_max", AttrValue(step_.unscale)}});
    if (step_.unscale != 1) inverse = t_.scalar(inverse, "scalar_mul", step_.unscale, "gradient_scale" + suffix_);
    if (!t_.failed() && ir::descOf(ratio).data_type() != kFloat)
      inverse = t_.op("loss_unscale_cast" + suffix_, "cast_like", {{"in", {inverse}}, {"dtype_like", {ratio}}});
    return t_.op("clip_factor" + suffix_, "broadcast_minimum", {{"x", {ratio}}, {"y", {inverse}}});
  }

  static bool isDouble(const Parameter &p) { return ir::descOf(p.g.tensor).data_type() == kDouble; }

  /// Of all gradients, in f64 where all are.
  Value squareSum(const std::vector<Parameter> &parameters) {
    std::vector<Value> narrow, wide;
    for (const Parameter &p : parameters) (isDouble(p) ? wide : narrow).push_back(p.gradient);
    const auto sumOf = [&](const std::vector<Value> &gradients, const char *name) {
      return t_.op(name + suffix_, "multi_square_sum", {{"x", gradients}});
    };
    Value squares = sumOf(narrow.empty() ? wide : narrow, "clip_square_sum");
    if (narrow.empty() || wide.empty()) return squares;
    Value rest = t_.op("clip_square_sum_f64_cast" + suffix_, "cast", {{"in", {sumOf(wide, "clip_square_sum_f64")}}},
                       {{"dtype", AttrValue(kFloat)}});
    return t_.op("clip_square_sum_all" + suffix_, "add_n", {{"in", {squares, rest}}});
  }

  Value learningRate(bool inDouble) {
    if (!group_.learningRateTensor.empty()) {
      Value v = t_.builder().findTensor(group_.learningRateTensor);
      return v;
    }
    if (group_.schedule.empty()) return {};
    auto attrs = group_.schedule;
    attrs["learning_rate"] = AttrValue(group_.learningRate);
    attrs["dtype"] = AttrValue(inDouble ? kDouble : kFloat);
    Value rate = t_.op("learning_rate" + suffix_, "learning_rate_schedule", {{"train_step", {step_.trainStep}}},
                       std::move(attrs));
    if (rate) t_.builder().addOutput("lr" + suffix_, rate);
    return rate;
  }

  void update(const Parameter &p, Value scale, bool scaled, Value rate, Value correction1, Value correction2) {
    const user_op::TensorDesc desc = ir::descOf(p.g.tensor);
    auto attrs = group_.attrs;
    if (!rate) attrs["learning_rate_val"] = AttrValue(static_cast<float>(group_.learningRate));
    if (!scaled && step_.unscale != 1) attrs["scale"] = AttrValue(step_.unscale * doubleAttr(group_, "scale", 1));
    const bool decays = group_.weightDecay != 0 && !matches(group_.decayNever, p.g.name) &&
                        (group_.decayOnly.empty() || matches(group_.decayOnly, p.g.name));
    if (decays) attrs[group_.decayAttr] = AttrValue(static_cast<float>(group_.weightDecay));
    // Beside what the optimizer adds itself.
    const auto add = [&attrs](const char *name, double term) {
      const auto it = attrs.find(name);
      const float *own = it == attrs.end() ? nullptr : it->second.get<float>();
      if (term != 0) attrs[name] = AttrValue(static_cast<float>(term + static_cast<double>(own ? *own : 0)));
    };
    add("l1", p.regularizer.l1);
    add("l2", p.regularizer.l2);
    std::vector<TrainingBuilder::Arg> args = {{"model", {p.g.tensor}},
                                              {"model_diff", {p.gradient}},
                                              {"learning_rate", {rate}},
                                              {"scale_by_tensor", {scale}},
                                              {"skip_if", {step_.skip}},
                                              {"bias_correction1", {correction1}},
                                              {"bias_correction2", {correction2}}};
    if (group_.updateOp == "adagrad_update") args.push_back({"train_step", {step_.trainStep}});
    for (const std::string &state : stateOf(group_))
      args.push_back(
          {state, {t_.variable(p.g.name + "-" + state, desc, state == "sum" ? group_.initialAccumulator : 0)}});
    t_.op(p.g.name + "_optimizer", group_.updateOp, args, std::move(attrs));
  }

  TrainingBuilder &t_;
  const OptimizerGroup &group_;
  const Step &step_;
  std::string suffix_;
};

/// The parts of a training step, one after the other.
class TrainingStep {
public:
  TrainingStep(ModuleOp module, const Registry &registry, const TrainingConfig &config, Value lossScale)
      : module_(module), registry_(registry), config_(config), t_(module, registry), parameters_(config.groups.size()) {
    step_.lossScale = lossScale;
  }

  LogicalResult run(const std::vector<GeneratedGradient> &gradients) {
    if (failed(findOwners(gradients))) return failure();
    Value count = t_.counter("train_step");
    step_.trainStep = count;
    if (!config_.lossScale.dynamic) step_.unscale = 1 / config_.lossScale.value;
    if (!config_.lossScale.dynamic && failed(checkUnscaling())) return failure();
    if (config_.accumulate > 1) accumulate(count);
    if (config_.lossScale.dynamic) {
      scheduleLossScale();
      countUpdates();
    }
    for (size_t k = 0; k < config_.groups.size() && !t_.failed(); ++k) {
      const OptimizerGroup &group = config_.groups[k];
      if (!group.learningRateTensor.empty() && !t_.builder().findTensor(group.learningRateTensor))
        return complain("no op makes the learning rate's tensor '" + group.learningRateTensor + "'", "");
      if (group.clipNorm > 0 && failed(regularize(&parameters_[k]))) return failure();
      GroupUpdate(t_, group, step_, k).run(parameters_[k]);
    }
    Value next = t_.integer(count, "scalar_add", 1, "train_step_next");
    t_.op("train_step_update", "assign", {{"ref", {count}}, {"value", {next}}});
    return t_.finish();
  }

private:
  LogicalResult complain(const std::string &message, const std::string &help) {
    emitStatus(module_, Status(StatusCode::kInvalidGraph, "OPC0507", message).withHelp(help));
    return failure();
  }

  LogicalResult checkUnscaling() {
    for (const auto &group : parameters_)
      for (const Parameter &p : group)
        if (failed(checkScale(p.g.tensor.getDefiningOp(), config_.lossScale.value, step_.unscale, p.g.name,
                              ir::descOf(p.g.tensor).data_type())))
          return failure();
    return success();
  }

  /// Before gradients are clipped, which are as large as the loss scale makes them. An update adds the others' itself.
  LogicalResult regularize(std::vector<Parameter> *parameters) {
    for (Parameter &p : *parameters) {
      const Regularizer r = std::exchange(p.regularizer, Regularizer());
      if (r.l1 == 0 && r.l2 == 0) continue;
      if (step_.lossScale)
        return complain("the variable " + p.g.name +
                            " has a regularizer, and its gradient is clipped while it has a dynamic loss scale",
                        "give a fixed loss_scale_factor, or weight decay in place of the regularizer");
      p.gradient = t_.op(p.g.name + "_regularized", "l1_l2_regularize_gradient",
                         {{"model", {p.g.tensor}}, {"model_diff", {p.gradient}}},
                         {{"l1", AttrValue(static_cast<float>(r.l1 / step_.unscale))},
                          {"l2", AttrValue(static_cast<float>(r.l2 / step_.unscale))}});
    }
    return success();
  }

  /// Who updates what.
  LogicalResult findOwners(const std::vector<GeneratedGradient> &gradients) {
    const auto &groups = config_.groups;
    for (const GeneratedGradient &g : gradients) {
      if (!g.gradient) continue;
      if (!isa<ir::VariableOp>(g.tensor.getDefiningOp())) continue; // an input whose gradient is an output
      int owner = -1;
      for (size_t k = 0; k < groups.size(); ++k) {
        if (groups[k].variables.empty() || !matches(groups[k].variables, g.name)) continue;
        if (owner >= 0)
          return complain("two optimizers are given for the variable " + g.name, "name each variable in one of them");
        owner = static_cast<int>(k);
      }
      for (size_t k = 0; owner < 0 && k < groups.size(); ++k)
        if (groups[k].variables.empty()) owner = static_cast<int>(k);
      if (owner < 0) continue;
      if (failed(findKernel(groups[static_cast<size_t>(owner)].updateOp, g))) return failure();
      const auto regularizer = config_.regularizers.find(g.name);
      parameters_[static_cast<size_t>(owner)].push_back(
          {g, g.gradient, regularizer == config_.regularizers.end() ? Regularizer() : regularizer->second});
    }
    for (size_t k = 0; k < groups.size(); ++k)
      if (parameters_[k].empty())
        return complain("the optimizer " + groups[k].updateOp +
                            " updates nothing: no trainable variable with a gradient is left for it",
                        "check the names of its variables; opc grad --explain NAME shows why one has no gradient");
    return success();
  }

  /// Whether some device's kernel of the update takes a variable of this type.
  LogicalResult findKernel(const std::string &updateOp, const GeneratedGradient &g) {
    const std::string type = dataTypeName(ir::descOf(g.tensor).data_type());
    std::vector<std::string> known;
    for (const user_op::KernelDef *kernel : registry_.kernels(updateOp)) {
      const std::string taken = kernelTarget(*kernel).dtype;
      if (taken.empty() || taken == type) return success();
      if (!llvm::is_contained(known, taken)) known.push_back(taken);
    }
    if (known.empty()) return success(); // a plugin may bring it when the graph is compiled
    emitStatus(g.tensor.getDefiningOp(),
               Status(StatusCode::kInvalidGraph, "OPC0507",
                      concat("no kernel of ", updateOp, " updates the variable ", g.name, " of type ", type,
                             ", but of ", joined(known, ", ")))
                   .withHelp(concat("keep ", g.name, " in f32 and cast it to ", type,
                                    " where it is read: small updates would be lost in ", type)));
    return failure();
  }

  /// Adds up the gradients of a round of steps, of which the last one updates.
  void accumulate(Value count) {
    const int64_t k = config_.accumulate;
    step_.unscale /= static_cast<double>(k);
    // train_step counts micro-batches here; the optimizer sees whole rounds.
    if (!config_.lossScale.dynamic) step_.trainStep = t_.integer(count, "scalar_floordiv", k, "optimizer_step");
    t_.builder().role = ir::Role::kAccumulation;
    Value phase = t_.integer(count, "scalar_fmod", k, "micro_batch");
    Value first = t_.integer(phase, "scalar_logical_not_equal", 0, "not_first_micro_batch");
    Value zero = t_.op(
        "accumulator_zero", "constant_like", {{"like", {first}}},
        {{"dtype", AttrValue(kFloat)}, {"is_floating_value", AttrValue(true)}, {"floating_value", AttrValue(0.0)}});
    Value last = t_.integer(phase, "scalar_logical_not_equal", k - 1, "not_last_micro_batch");
    step_.skip = t_.op("skip_update", "cast", {{"in", {last}}}, {{"dtype", AttrValue(kInt64)}});
    for (auto &group : parameters_)
      for (Parameter &p : group)
        if (!t_.failed()) accumulate(&p, first, zero);
    t_.builder().role = ir::Role::kOptimizer;
  }

  /// `keeps` is 0 in the first step of a round, which begins with `zero`. What is not a number would stay so through a
  /// product with 0.
  void accumulate(Parameter *p, Value keeps, Value zero) {
    const user_op::TensorDesc desc = ir::descOf(p->g.tensor);
    const std::string &name = p->g.name;
    Value sum = t_.variable(name + "-accumulated", desc, 0.0);
    if (desc.data_type() != kFloat)
      zero = t_.op(name + "_accumulator_zero", "cast_like", {{"in", {zero}}, {"dtype_like", {p->g.tensor}}});
    if (desc.shape().NumAxes() == 0) { // one element broadcast to rank 0 would give rank 1
      const AttrValue none{Shape()};
      keeps = t_.op(name + "_accumulator_keeps", "reshape", {{"in", {keeps}}}, {{"shape", none}});
      zero = t_.op(name + "_accumulator_begin", "reshape", {{"in", {zero}}}, {{"shape", none}});
    }
    Value kept = t_.op(name + "_accumulated", "where", {{"condition", {keeps}}, {"x", {sum}}, {"y", {zero}}});
    p->gradient = t_.op(name + "_accumulate", "add_n", {{"in", {kept, p->gradient}}});
    t_.op(name + "_accumulator", "assign", {{"ref", {sum}}, {"value", {p->gradient}}});
  }

  /// Steps whose gradients are not finite update nothing but the scale.
  void scheduleLossScale() {
    std::vector<Value> counts;
    for (auto &group : parameters_)
      for (Parameter &p : group)
        counts.push_back(t_.op(p.g.name + "_not_finite", "count_not_finite", {{"x", {p.gradient}}}));
    Value all = counts.size() == 1 ? counts[0] : t_.op("count_not_finite", "add_n", {{"in", counts}});
    Value good = t_.counter("good_step_counter");
    // Of rounds of steps: in their midst another scale would be that of a part of what is added up.
    t_.op("loss_scale_schedule", "dynamic_loss_scale_schedule",
          {{"count_not_finite", {all}},
           {"loss_scale", {step_.lossScale}},
           {"good_step_counter", {good}},
           {"skip_if", {step_.skip}}},
          {{"increment_period", AttrValue(config_.lossScale.incrementPeriod)},
           {"multiplier", AttrValue(static_cast<float>(config_.lossScale.multiplier))}});
    step_.skip = step_.skip ? t_.op("skip_any", "add_n", {{"in", {step_.skip, all}}}) : all;
  }

  /// A step that is skipped leaves the means as they are: it counts neither for the corrections of their bias nor for
  /// schedules.
  void countUpdates() {
    step_.trainStep = t_.counter("update_count");
    Value updates = t_.integer(step_.skip, "scalar_logical_equal", 0, "is_update");
    Value one = t_.op("update_of_step", "cast", {{"in", {updates}}}, {{"dtype", AttrValue(kInt64)}});
    Value next = t_.op("update_count_next", "add_n", {{"in", {step_.trainStep, one}}});
    t_.op("update_count_update", "assign", {{"ref", {step_.trainStep}}, {"value", {next}}});
  }

  ModuleOp module_;
  const Registry &registry_;
  const TrainingConfig &config_;
  TrainingBuilder t_;
  std::vector<std::vector<Parameter>> parameters_; // by group
  Step step_;
};

} // namespace

FailureOr<Seeds> scaledSeeds(ModuleOp module, const Registry &registry, ArrayRef<Value> losses, ArrayRef<Value> given,
                             const LossScale &scale) {
  Seeds seeds;
  seeds.gradients.assign(given.begin(), given.end());
  if (!scale.dynamic && scale.value == 1) return seeds;
  TrainingBuilder t(module, registry);
  t.builder().role = ir::Role::kBackward;
  if (scale.dynamic) seeds.lossScale = t.variable("loss_scale", user_op::TensorDesc(Shape({1}), kFloat), scale.value);
  seeds.gradients.clear();
  for (auto [i, loss] : llvm::enumerate(losses)) {
    const std::string name = ir::opName(loss.getDefiningOp());
    // Given gradients are multiplied by the scale in f32, and become what they become.
    const DataType type = ir::descOf(loss).data_type(), scaledIn = given.empty() || type == kDouble ? type : kFloat;
    if (!scale.dynamic && failed(checkScale(loss.getDefiningOp(), scale.value, scale.value, name, scaledIn)))
      return failure();
    if (!scale.dynamic && !given.empty()) {
      seeds.gradients.push_back(t.scalar(given[i], "scalar_mul", scale.value, name + "_grad_scaled"));
      continue;
    }
    Value ones = given.empty() ? t.op(name + "_grad_one", "constant_like", {{"like", {loss}}},
                                      {{"is_floating_value", AttrValue(true)},
                                       {"floating_value", AttrValue(scale.dynamic ? 1.0 : scale.value)}})
                               : given[i];
    if (!scale.dynamic) {
      seeds.gradients.push_back(ones);
      continue;
    }
    Value factor = seeds.lossScale;
    if (!t.failed() && ir::descOf(loss).data_type() != kFloat)
      factor = t.op(name + "_loss_scale", "cast_like", {{"in", {factor}}, {"dtype_like", {loss}}});
    // One element broadcast to rank 0 would give rank 1.
    if (!t.failed() && ir::descOf(loss).shape().NumAxes() == 0)
      factor = t.op(name + "_loss_scale_scalar", "reshape", {{"in", {factor}}}, {{"shape", AttrValue(Shape())}});
    seeds.gradients.push_back(
        t.op(name + "_grad_scaled", "scalar_mul_by_tensor", {{"x", {ones}}, {"scalar", {factor}}}));
  }
  if (t.finish().failed()) return failure();
  return seeds;
}

LogicalResult addTraining(ModuleOp module, const Registry &registry, const TrainingConfig &config,
                          const std::vector<GeneratedGradient> &gradients, Value lossScale) {
  return TrainingStep(module, registry, config, lossScale).run(gradients);
}

} // namespace opc
