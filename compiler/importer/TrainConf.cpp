// OneFlow's TrainConf in a Job -> what the grad phase is asked for.
// SPDX-License-Identifier: Apache-2.0
#include "TrainConf.h"
#include "Graph.h"
#include "Passes.h"
#include "TextParts.h"
#include "opc/Convert.h"

#include <google/protobuf/descriptor.h>

#include <cmath>

namespace opc {
namespace {

namespace pb = google::protobuf;
using Field = pb::FieldDescriptor;
using Attrs = std::map<std::string, AttrValue>;

/// The value of a field, as an attribute: lists of numbers are f32 there.
AttrValue valueOf(const pb::Message &conf, const Field *f) {
  const pb::Reflection *r = conf.GetReflection();
  const auto list = [](const auto &field, auto number) {
    std::vector<decltype(number)> v;
    for (const auto x : field) v.push_back(static_cast<decltype(number)>(x));
    return AttrValue(v);
  };
  switch (f->cpp_type()) {
  case Field::CPPTYPE_BOOL: return AttrValue(r->GetBool(conf, f));
  case Field::CPPTYPE_FLOAT: return AttrValue(r->GetFloat(conf, f));
  case Field::CPPTYPE_DOUBLE:
    return f->is_repeated() ? list(r->GetRepeatedField<double>(conf, f), 0.0F) : AttrValue(r->GetDouble(conf, f));
  default:
    return f->is_repeated() ? list(r->GetRepeatedField<int64_t>(conf, f), int64_t{}) : AttrValue(r->GetInt64(conf, f));
  }
}
/// Each field of a configuration is the attribute of its name.
void putFields(const pb::Message &conf, Attrs *attrs) {
  for (int i = 0; i < conf.GetDescriptor()->field_count(); ++i) {
    const Field *f = conf.GetDescriptor()->field(i);
    (*attrs)[std::string(f->name())] = valueOf(conf, f);
  }
}

/// Attributes of learning_rate_schedule (its doc has the formulas).
void readDecay(const graph::LearningRateDecayConf &conf, Attrs *attrs) {
  using Decay = graph::LearningRateDecayConf;
  if (conf.exclude_warmup()) (*attrs)["exclude_warmup"] = AttrValue(true);
  const auto put = [&](const char *type, const pb::Message &kind) {
    (*attrs)["decay_type"] = AttrValue(std::string(type));
    putFields(kind, attrs);
  };
  switch (conf.type_case()) {
  case Decay::kExponentialConf: return put("exponential", conf.exponential_conf());
  case Decay::kInverseTimeConf: return put("inverse_time", conf.inverse_time_conf());
  case Decay::kNaturalExpConf: return put("natural_exp", conf.natural_exp_conf());
  case Decay::kPiecewiseConstantConf: return put("piecewise_constant", conf.piecewise_constant_conf());
  case Decay::kPolynomialConf: return put("polynomial", conf.polynomial_conf());
  case Decay::kCosineConf: return put("cosine", conf.cosine_conf());
  case Decay::kLinearCosineConf: return put("linear_cosine", conf.linear_cosine_conf());
  case Decay::kPiecewiseScalingConf: return put("piecewise_scaling", conf.piecewise_scaling_conf());
  case Decay::kMultiStepConf: return put("multi_step", conf.multi_step_conf());
  case Decay::kStepConf: return put("step", conf.step_conf());
  case Decay::kCosineAnnealingConf: return put("cosine_annealing", conf.cosine_annealing_conf());
  case Decay::kLinearLrConf: return put("linear_lr", conf.linear_lr_conf());
  case Decay::kConstantLrConf: return put("constant_lr", conf.constant_lr_conf());
  case Decay::TYPE_NOT_SET: return;
  }
}

void readWarmup(const graph::WarmupConf &conf, Attrs *attrs) {
  auto put = [&](const char *type, int64_t batches, double factor) {
    (*attrs)["warmup_type"] = AttrValue(std::string(type));
    (*attrs)["warmup_batches"] = AttrValue(batches);
    (*attrs)["warmup_multiplier"] = AttrValue(factor);
  };
  // Up to v0.6 the numbers are in the kind, later beside it.
  const bool outside = conf.has_warmup_batches();
  if (conf.has_constant_conf())
    put("constant", outside ? conf.warmup_batches() : conf.constant_conf().warmup_batches(),
        outside ? conf.warmup_factor() : conf.constant_conf().multiplier());
  else if (conf.has_linear_conf())
    put("linear", outside ? conf.warmup_batches() : conf.linear_conf().warmup_batches(),
        outside ? conf.warmup_factor() : conf.linear_conf().start_multiplier());
}

/// False for an optimizer that opc has no update op for.
bool readOptimizer(const graph::OptimizerConf &conf, OptimizerGroup *group) {
  const auto put = [&](const char *op, const pb::Message &kind) {
    group->updateOp = op;
    putFields(kind, &group->attrs);
    return true;
  };
  switch (conf.normal_mdupdt_case()) {
  case graph::OptimizerConf::kNaiveConf:
  case graph::OptimizerConf::NORMAL_MDUPDT_NOT_SET: return put("sgd_update", conf.naive_conf());
  case graph::OptimizerConf::kMomentumConf: return put("momentum_update", conf.momentum_conf());
  case graph::OptimizerConf::kRmspropConf: return put("rmsprop_update", conf.rmsprop_conf());
  case graph::OptimizerConf::kLarsConf: return put("lars_update", conf.lars_conf());
  case graph::OptimizerConf::kAdamConf: return put("adam_update", conf.adam_conf());
  case graph::OptimizerConf::kLambConf: return put("lamb_update", conf.lamb_conf());
  case graph::OptimizerConf::kAdagradConf:
    put("adagrad_update", conf.adagrad_conf());
    group->attrs.erase("initial_accumulator_value"); // of the variable, not of the op
    group->initialAccumulator = static_cast<double>(conf.adagrad_conf().initial_accumulator_value());
    return true;
  default: return false;
  }
}

/// A number of the configuration that makes no training. An empty message: it does.
std::string notAbove0(const char *name, double value) {
  if (value > 0 && std::isfinite(value)) return "";
  return concat(name, " is ", AttrValue(value).toString(), ", it should be above 0");
}

/// What the numbers of an optimizer have against being computed with, beside what its ops find.
std::string faultOf(const graph::OptimizerConf &conf) {
  if (!std::isfinite(conf.base_learning_rate()))
    return concat("base_learning_rate is ", AttrValue(conf.base_learning_rate()).toString(), ", it should be finite");
  const float sum = conf.adagrad_conf().initial_accumulator_value();
  if (conf.has_adagrad_conf() && !(sum >= 0 && std::isfinite(sum)))
    return concat("initial_accumulator_value is ", AttrValue(sum).toString(), ", it should be 0 or more");
  if (!conf.clip_conf().has_clip_by_global_norm()) return "";
  return notAbove0("max_norm", static_cast<double>(conf.clip_conf().clip_by_global_norm().max_norm()));
}

LossScale lossScaleOf(const graph::TrainConf &conf) {
  LossScale scale;
  scale.dynamic = conf.has_dynamic_loss_scale_policy();
  if (!scale.dynamic) {
    scale.value = static_cast<double>(conf.loss_scale_factor());
    return scale;
  }
  const graph::DynamicLossScalePolicy &policy = conf.dynamic_loss_scale_policy();
  scale.value = static_cast<double>(policy.initial_loss_scale());
  scale.incrementPeriod = convertElement<int64_t>(policy.increment_period());
  scale.multiplier = static_cast<double>(policy.multiplier());
  return scale;
}
std::string faultOfLossScale(const graph::TrainConf &conf) {
  const graph::DynamicLossScalePolicy &policy = conf.dynamic_loss_scale_policy();
  if (!conf.has_dynamic_loss_scale_policy())
    return notAbove0("loss_scale_factor", static_cast<double>(conf.loss_scale_factor()));
  const std::string fault = notAbove0("initial_loss_scale", static_cast<double>(policy.initial_loss_scale()));
  return fault.empty() ? notAbove0("increment_period", static_cast<double>(policy.increment_period())) : fault;
}

/// "NAME has no NUMBER" for a number that a message does not give and has no default for, or "": OneFlow requires it,
/// and 0 in its place would train otherwise than was meant.
std::string lackOf(const std::string &name, const pb::Message &message) {
  const pb::Descriptor *type = message.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const Field *f = type->field(i);
    if (f->is_repeated() || f->has_default_value()) continue;
    const bool isNumber = f->cpp_type() != f->CPPTYPE_MESSAGE && f->cpp_type() != f->CPPTYPE_STRING;
    if (isNumber && !message.GetReflection()->HasField(message, f)) return concat(name, " has no ", f->name());
  }
  return "";
}

/// The same of the message that a oneof holds, if any.
std::string lackOfKind(const pb::Message &message) {
  const pb::Reflection *r = message.GetReflection();
  const auto *kind = r->GetOneofFieldDescriptor(message, message.GetDescriptor()->oneof_decl(0));
  return kind ? lackOf(kind->name(), r->GetMessage(message, kind)) : "";
}

/// What an optimizer lacks, or "".
std::string lackOf(const graph::OptimizerConf &conf) {
  const graph::WarmupConf &warmup = conf.warmup_conf();
  const bool hasWarmup = warmup.type_case() != graph::WarmupConf::TYPE_NOT_SET;
  std::string text = lackOfKind(conf.learning_rate_decay());
  if (text.empty() && hasWarmup)
    text = warmup.has_warmup_batches() ? lackOf("warmup_conf", warmup) : lackOfKind(warmup);
  if (text.empty() && conf.has_weight_decay_conf()) text = lackOf("weight_decay_conf", conf.weight_decay_conf());
  const bool hasAllRates = conf.learning_rate_decay().has_piecewise_constant_conf() && !hasWarmup;
  if (text.empty() && !conf.has_base_learning_rate() && conf.learning_rate_lbn().empty() && !hasAllRates)
    text = "optimizer_conf has no base_learning_rate";
  return text;
}

} // namespace

std::map<std::string, Regularizer> readRegularizers(const GraphFile &file) {
  std::map<std::string, Regularizer> all;
  for (const graph::OperatorConf &op : file.job->net().op()) {
    const graph::L1L2RegularizerConf &conf = op.variable_conf().regularizer().l1_l2_conf();
    const Regularizer r{static_cast<double>(conf.l1()), static_cast<double>(conf.l2())};
    if (r.l1 != 0 || r.l2 != 0) all[op.name()] = r;
  }
  return all;
}

std::optional<JobTraining> readTraining(const GraphFile &file, std::vector<Diagnostic> *diagnostics) {
  if (!file.job->job_conf().has_train_conf() || file.job->job_conf().train_conf().optimizer_conf_size() == 0)
    return std::nullopt;
  const graph::TrainConf &conf = file.job->job_conf().train_conf();
  JobTraining training;
  auto error = [&](const std::string &message, const std::string &help) {
    Diagnostic d;
    d.code = "OPC0507";
    d.message = "train_conf: " + message;
    d.help = help;
    d.range.file = file.name;
    diagnostics->push_back(std::move(d));
  };
  training.losses.assign(conf.loss_lbn().begin(), conf.loss_lbn().end());
  if (training.losses.empty()) error("it has optimizers and no loss_lbn", "name the loss: loss_lbn: \"loss/out_0\"");
  training.config.lossScale = lossScaleOf(conf);
  if (const std::string fault = faultOfLossScale(conf); !fault.empty())
    error(fault, "leave it out, or give a power of 2 such as 1024");
  if (file.job->job_conf().has_num_gradient_accumulation_steps()) {
    training.config.accumulate = file.job->job_conf().num_gradient_accumulation_steps();
    if (training.config.accumulate < 1)
      error("num_gradient_accumulation_steps is " + std::to_string(training.config.accumulate), "it is 1 or more");
  }
  for (const graph::OptimizerConf &o : conf.optimizer_conf()) {
    if (const std::string fault = faultOf(o); !fault.empty()) error(fault, "give such a number, or leave it out");
    if (const std::string lack = lackOf(o); !lack.empty()) error(lack, "give it: 0 would be taken in its place");
    OptimizerGroup group;
    group.variables.assign(o.variable_op_names().begin(), o.variable_op_names().end());
    group.learningRate = static_cast<double>(o.base_learning_rate());
    if (o.has_lr_scale() && o.lr_scale() != 1.0f) group.attrs["learning_rate_scale"] = AttrValue(o.lr_scale());
    if (o.has_learning_rate_decay()) readDecay(o.learning_rate_decay(), &group.schedule);
    if (o.has_warmup_conf()) readWarmup(o.warmup_conf(), &group.schedule);
    group.learningRateTensor = o.learning_rate_lbn();
    if (o.clip_conf().has_clip_by_global_norm()) {
      group.clipNorm = static_cast<double>(o.clip_conf().clip_by_global_norm().max_norm());
      if (o.clip_conf().clip_by_global_norm().norm_type() != 2.0)
        error("clip_by_global_norm with norm_type " + std::to_string(o.clip_conf().clip_by_global_norm().norm_type()),
              "opc clips by the 2-norm: norm_type: 2");
    }
    if (o.has_weight_decay_conf()) {
      const graph::WeightDecayConf &decay = o.weight_decay_conf();
      group.weightDecay = static_cast<double>(decay.weight_decay_rate());
      // OneFlow's patterns are searched for in the name.
      for (const std::string &p : decay.includes().pattern()) group.decayOnly.push_back("*" + p + "*");
      for (const std::string &p : decay.excludes().pattern()) group.decayNever.push_back("*" + p + "*");
    }
    if (!readOptimizer(o, &group))
      error("an optimizer that opc does not have", "opc has naive, momentum, rmsprop, lars, adam, lamb and adagrad");
    training.config.groups.push_back(std::move(group));
  }
  return training;
}

#define GEN_PASS_DEF_DROPTRAINCONF
#include "Passes.h.inc"

namespace {
struct DropTrainConfPass : impl::DropTrainConfBase<DropTrainConfPass> {
  void runOnGraph() override { forgetTraining(getOperation()); }
};
} // namespace

} // namespace opc
