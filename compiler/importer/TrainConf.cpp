// OneFlow's TrainConf in a Job -> what the grad phase is asked for.
// SPDX-License-Identifier: Apache-2.0
#include "TrainConf.h"
#include "Graph.h"
#include "Passes.h"
#include "TextParts.h"

#include <cmath>

namespace opc {
namespace {

using Attrs = std::map<std::string, AttrValue>;

/// Attributes of learning_rate_schedule (its doc has the formulas).
bool readDecay(const graph::LearningRateDecayConf &conf, Attrs *attrs) {
  auto put = [&](const char *name, auto value) { (*attrs)[name] = AttrValue(value); };
  auto type = [&](const char *name) { put("decay_type", std::string(name)); };
  auto list = [](const auto &field) { return std::vector<int64_t>(field.begin(), field.end()); };
  auto floats = [](const auto &field) {
    std::vector<float> v;
    for (double x : field) v.push_back(static_cast<float>(x));
    return v;
  };
  if (conf.exclude_warmup()) put("exclude_warmup", true);
  auto rate = [&](const char *name, const auto &c) {
    type(name);
    put("decay_batches", c.decay_batches());
    put("decay_rate", c.decay_rate());
    put("staircase", c.staircase());
  };
  switch (conf.type_case()) {
  case graph::LearningRateDecayConf::kExponentialConf: rate("exponential", conf.exponential_conf()); return true;
  case graph::LearningRateDecayConf::kInverseTimeConf: rate("inverse_time", conf.inverse_time_conf()); return true;
  case graph::LearningRateDecayConf::kNaturalExpConf: rate("natural_exp", conf.natural_exp_conf()); return true;
  case graph::LearningRateDecayConf::kPiecewiseConstantConf:
    type("piecewise_constant");
    put("boundaries", list(conf.piecewise_constant_conf().boundaries()));
    put("values", floats(conf.piecewise_constant_conf().values()));
    return true;
  case graph::LearningRateDecayConf::kPolynomialConf:
    type("polynomial");
    put("decay_batches", conf.polynomial_conf().decay_batches());
    put("end_learning_rate", conf.polynomial_conf().end_learning_rate());
    put("power", conf.polynomial_conf().power());
    put("cycle", conf.polynomial_conf().cycle());
    return true;
  case graph::LearningRateDecayConf::kCosineConf:
    type("cosine");
    put("decay_batches", conf.cosine_conf().decay_batches());
    put("alpha", conf.cosine_conf().alpha());
    return true;
  case graph::LearningRateDecayConf::kLinearCosineConf:
    type("linear_cosine");
    put("decay_batches", conf.linear_cosine_conf().decay_batches());
    put("num_periods", conf.linear_cosine_conf().num_periods());
    put("alpha", conf.linear_cosine_conf().alpha());
    put("beta", conf.linear_cosine_conf().beta());
    return true;
  case graph::LearningRateDecayConf::kPiecewiseScalingConf:
    type("piecewise_scaling");
    put("boundaries", list(conf.piecewise_scaling_conf().boundaries()));
    put("scales", floats(conf.piecewise_scaling_conf().scales()));
    return true;
  case graph::LearningRateDecayConf::kMultiStepConf:
    type("multi_step");
    put("milestones", list(conf.multi_step_conf().milestones()));
    put("gamma", conf.multi_step_conf().gamma());
    return true;
  case graph::LearningRateDecayConf::kStepConf:
    type("step");
    put("step_size", conf.step_conf().step_size());
    put("gamma", conf.step_conf().gamma());
    return true;
  case graph::LearningRateDecayConf::kCosineAnnealingConf:
    type("cosine_annealing");
    put("t_max", conf.cosine_annealing_conf().t_max());
    put("eta_min", conf.cosine_annealing_conf().eta_min());
    return true;
  case graph::LearningRateDecayConf::kLinearLrConf:
    type("linear_lr");
    put("start_factor", conf.linear_lr_conf().start_factor());
    put("end_factor", conf.linear_lr_conf().end_factor());
    put("total_iters", conf.linear_lr_conf().total_iters());
    return true;
  case graph::LearningRateDecayConf::kConstantLrConf:
    type("constant_lr");
    put("factor", conf.constant_lr_conf().factor());
    put("total_iters", conf.constant_lr_conf().total_iters());
    return true;
  case graph::LearningRateDecayConf::TYPE_NOT_SET: return true;
  }
  return false;
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
  auto put = [&](const char *name, auto value) { group->attrs[name] = AttrValue(value); };
  auto adam = [&](const auto &c) {
    put("beta1", c.beta1());
    put("beta2", c.beta2());
    put("epsilon", c.epsilon());
    put("do_bias_correction", c.do_bias_correction());
  };
  switch (conf.normal_mdupdt_case()) {
  case graph::OptimizerConf::kNaiveConf:
  case graph::OptimizerConf::NORMAL_MDUPDT_NOT_SET: group->updateOp = "sgd_update"; return true;
  case graph::OptimizerConf::kMomentumConf:
    group->updateOp = "momentum_update";
    put("beta", conf.momentum_conf().beta());
    put("dampening", conf.momentum_conf().dampening());
    put("nesterov", conf.momentum_conf().nesterov());
    put("maximize", conf.momentum_conf().maximize());
    return true;
  case graph::OptimizerConf::kRmspropConf:
    group->updateOp = "rmsprop_update";
    put("decay_rate", conf.rmsprop_conf().decay_rate());
    put("epsilon", conf.rmsprop_conf().epsilon());
    put("centered", conf.rmsprop_conf().centered());
    return true;
  case graph::OptimizerConf::kLarsConf:
    group->updateOp = "lars_update";
    put("momentum_beta", conf.lars_conf().momentum_beta());
    put("epsilon", conf.lars_conf().epsilon());
    put("lars_coefficient", conf.lars_conf().lars_coefficient());
    return true;
  case graph::OptimizerConf::kAdamConf:
    group->updateOp = "adam_update";
    adam(conf.adam_conf());
    put("amsgrad", conf.adam_conf().amsgrad());
    return true;
  case graph::OptimizerConf::kLambConf:
    group->updateOp = "lamb_update";
    adam(conf.lamb_conf());
    return true;
  case graph::OptimizerConf::kAdagradConf:
    group->updateOp = "adagrad_update";
    put("lr_decay", conf.adagrad_conf().lr_decay());
    put("epsilon", conf.adagrad_conf().epsilon());
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
  if (conf.has_dynamic_loss_scale_policy()) {
    training.config.lossScale.dynamic = true;
    training.config.lossScale.value = static_cast<double>(conf.dynamic_loss_scale_policy().initial_loss_scale());
    training.config.lossScale.incrementPeriod =
        static_cast<int64_t>(conf.dynamic_loss_scale_policy().increment_period());
    training.config.lossScale.multiplier = static_cast<double>(conf.dynamic_loss_scale_policy().multiplier());
  } else {
    training.config.lossScale.value = static_cast<double>(conf.loss_scale_factor());
  }
  if (const std::string fault =
          notAbove0(training.config.lossScale.dynamic ? "initial_loss_scale" : "loss_scale_factor",
                    training.config.lossScale.value);
      !fault.empty())
    error(fault, "leave it out, or give a power of 2 such as 1024");
  if (file.job->job_conf().has_num_gradient_accumulation_steps()) {
    training.config.accumulate = file.job->job_conf().num_gradient_accumulation_steps();
    if (training.config.accumulate < 1)
      error("num_gradient_accumulation_steps is " + std::to_string(training.config.accumulate), "it is 1 or more");
  }
  for (const graph::OptimizerConf &o : conf.optimizer_conf()) {
    if (const std::string fault = faultOf(o); !fault.empty()) error(fault, "give such a number, or leave it out");
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
