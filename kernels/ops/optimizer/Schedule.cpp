// learning_rate_schedule: the learning rate as a function of the step.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/UpdateArguments.h"
#include "optimizer/UpdateOp.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"

#include <cmath>

namespace opc::ops::optimizer {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr const char *kReals[] = {
    "learning_rate", "warmup_multiplier", "decay_rate",   "end_learning_rate", "power", "alpha", "num_periods", "beta",
    "gamma",         "eta_min",           "start_factor", "end_factor",        "factor"};

/// The attributes of one instance, and the formulas over them.
struct Schedule {
  explicit Schedule(const UserOpConfWrapper &conf) : conf_(&conf) {}

  double at(int64_t step) const {
    if (!warmupType.empty() && step < warmupBatches) {
      if (warmupType == "constant") return rate * warmupMultiplier;
      const double x = static_cast<double>(step) / static_cast<double>(warmupBatches);
      return rate * (warmupMultiplier + (1 - warmupMultiplier) * x);
    }
    return decayed(excludeWarmup && !warmupType.empty() ? step - warmupBatches : step);
  }

  /// What is wrong with the attributes; empty when nothing is.
  std::string fault() const {
    if (!warmupType.empty() && warmupType != "constant" && warmupType != "linear")
      return "warmup_type is '" + warmupType + "', it should be constant, linear or empty";
    if (warmupBatches < 0) return "warmup_batches is " + std::to_string(warmupBatches);
    for (const char *name : kReals)
      if (!std::isfinite(real(name)))
        return std::string(name) + " is " + AttrValue(real(name)).toString() + ", it should be finite";
    auto positive = [](const char *name, int64_t v) {
      return v > 0 ? std::string() : std::string(name) + " is " + std::to_string(v) + ", it should be more than 0";
    };
    auto increasing = [](const char *name, const std::vector<int64_t> &list) {
      for (size_t i = 1; i < list.size(); ++i)
        if (list[i] <= list[i - 1]) return std::string(name) + " should increase";
      return std::string();
    };
    auto pieces = [&](const char *name, size_t n) {
      if (n == boundaries.size() + 1) return increasing("boundaries", boundaries);
      return std::string(name) + " has " + std::to_string(n) + " numbers, it should have one more than boundaries, " +
             std::to_string(boundaries.size() + 1);
    };
    const std::string &t = decayType;
    if (t.empty()) return "";
    if (t == "exponential" || t == "inverse_time" || t == "natural_exp" || t == "polynomial" || t == "cosine" ||
        t == "linear_cosine")
      return positive("decay_batches", decayBatches);
    if (t == "piecewise_constant") return pieces("values", values.size());
    if (t == "piecewise_scaling") return pieces("scales", scales.size());
    if (t == "multi_step") return increasing("milestones", milestones);
    if (t == "step") return positive("step_size", stepSize);
    if (t == "cosine_annealing") return positive("t_max", tMax);
    if (t == "linear_lr" || t == "constant_lr") return positive("total_iters", totalIters);
    return "decay_type is '" + t +
           "'; there are exponential, inverse_time, natural_exp, piecewise_constant, polynomial, cosine, "
           "linear_cosine, piecewise_scaling, multi_step, step, cosine_annealing, linear_lr and constant_lr";
  }

  /// The same for device code.
  ScheduleArguments arguments() const {
    static const std::pair<const char *, DecayForm> kForms[] = {{"exponential", DecayForm::kExponential},
                                                                {"inverse_time", DecayForm::kInverseTime},
                                                                {"natural_exp", DecayForm::kNaturalExp},
                                                                {"piecewise_constant", DecayForm::kPiecewiseConstant},
                                                                {"polynomial", DecayForm::kPolynomial},
                                                                {"cosine", DecayForm::kCosine},
                                                                {"linear_cosine", DecayForm::kLinearCosine},
                                                                {"piecewise_scaling", DecayForm::kPiecewiseScaling},
                                                                {"multi_step", DecayForm::kMultiStep},
                                                                {"step", DecayForm::kStep},
                                                                {"cosine_annealing", DecayForm::kCosineAnnealing},
                                                                {"linear_lr", DecayForm::kLinear},
                                                                {"constant_lr", DecayForm::kConstant}};
    ScheduleArguments a{};
    for (const auto &[name, form] : kForms)
      if (decayType == name) a.form = form;
    const std::vector<int64_t> &pieces = a.form == DecayForm::kMultiStep ? milestones : boundaries;
    if (pieces.size() > static_cast<size_t>(ScheduleArguments::kPieces))
      throw ContractError("a schedule of " + std::to_string(pieces.size()) +
                          " boundaries; on a GPU there are at most " + std::to_string(ScheduleArguments::kPieces) +
                          ", and the CPU takes more");
    a.hasWarmup = !warmupType.empty();
    a.warmupIsConstant = warmupType == "constant";
    a.excludesWarmup = excludeWarmup;
    a.staircase = staircase;
    a.cycle = cycle;
    a.pieces = static_cast<int32_t>(pieces.size());
    std::copy(pieces.begin(), pieces.end(), a.boundaries);
    const std::vector<float> &numbers = a.form == DecayForm::kPiecewiseConstant ? values : scales;
    std::copy_n(numbers.begin(), std::min(numbers.size(), pieces.size() + 1), a.values);
    a.rate = rate, a.warmupMultiplier = warmupMultiplier, a.decayRate = decayRate, a.endRate = endRate;
    a.power = power, a.alpha = alpha, a.periods = periods, a.beta = beta, a.gamma = gamma, a.etaMin = etaMin;
    a.startFactor = startFactor, a.endFactor = endFactor, a.factor = factor;
    a.warmupBatches = warmupBatches, a.decayBatches = decayBatches, a.stepSize = stepSize, a.tMax = tMax;
    a.totalIters = totalIters;
    return a;
  }

private:
  double decayed(int64_t step) const {
    const double k = static_cast<double>(step), n = static_cast<double>(decayBatches);
    const double x = decayBatches ? k / n : 0, whole = staircase ? std::floor(x) : x, part = std::min(x, 1.0);
    const std::string &t = decayType;
    if (t == "exponential") return rate * std::pow(decayRate, whole);
    if (t == "inverse_time") return rate / (1 + decayRate * whole);
    if (t == "natural_exp") return rate * std::exp(-decayRate * whole);
    if (t == "piecewise_constant") return static_cast<double>(values[piece(step)]);
    if (t == "piecewise_scaling") return rate * static_cast<double>(scales[piece(step)]);
    if (t == "polynomial") {
      const double length = cycle ? n * std::max(1.0, std::ceil(x)) : n;
      return (rate - endRate) * std::pow(1 - std::min(k, length) / length, power) + endRate;
    }
    if (t == "cosine") return rate * ((1 - alpha) * 0.5 * (1 + std::cos(kPi * part)) + alpha);
    if (t == "linear_cosine")
      return rate * ((alpha + 1 - part) * 0.5 * (1 + std::cos(2 * kPi * periods * part)) + beta);
    if (t == "multi_step") {
      size_t reached = 0;
      while (reached < milestones.size() && milestones[reached] <= step) ++reached;
      return rate * std::pow(gamma, static_cast<double>(reached));
    }
    if (t == "step") return rate * std::pow(gamma, static_cast<double>(step / stepSize));
    if (t == "cosine_annealing")
      return etaMin + (rate - etaMin) * (1 + std::cos(kPi * k / static_cast<double>(tMax))) / 2;
    const double toGo = static_cast<double>(std::min(step, totalIters)) / static_cast<double>(totalIters);
    if (t == "linear_lr") return rate * (startFactor + (endFactor - startFactor) * toGo);
    if (t == "constant_lr") return step < totalIters ? rate * factor : rate;
    return rate;
  }
  /// The piece of a step: boundary i is the last step of piece i.
  size_t piece(int64_t step) const {
    size_t i = 0;
    while (i < boundaries.size() && step > boundaries[i]) ++i;
    return i;
  }

  template <class V> const V &attr(const char *name) const { return conf_->attr<V>(name); }
  double real(const char *name) const { return attr<double>(name); }
  int64_t count(const char *name) const { return attr<int64_t>(name); }
  bool flag(const char *name) const { return attr<bool>(name); }

  const UserOpConfWrapper *conf_; // read where the object is made, and not again
  double rate = real("learning_rate"), warmupMultiplier = real("warmup_multiplier"), decayRate = real("decay_rate"),
         endRate = real("end_learning_rate"), power = real("power"), alpha = real("alpha"),
         periods = real("num_periods"), beta = real("beta"), gamma = real("gamma"), etaMin = real("eta_min"),
         startFactor = real("start_factor"), endFactor = real("end_factor"), factor = real("factor");
  int64_t warmupBatches = count("warmup_batches"), decayBatches = count("decay_batches"), stepSize = count("step_size"),
          tMax = count("t_max"), totalIters = count("total_iters");
  bool excludeWarmup = flag("exclude_warmup"), staircase = flag("staircase"), cycle = flag("cycle");
  std::string warmupType = attr<std::string>("warmup_type"), decayType = attr<std::string>("decay_type");
  std::vector<int64_t> boundaries = attr<std::vector<int64_t>>("boundaries"),
                       milestones = attr<std::vector<int64_t>>("milestones");
  std::vector<float> values = attr<std::vector<float>>("values"), scales = attr<std::vector<float>>("scales");
};

std::unique_ptr<BoundKernel> bindSchedule(KernelBindContext *ctx) {
  const int64_t *step = ctx->In("train_step").dptr<int64_t>();
  if (isOnGpu(ctx)) {
    ScheduleArguments a = Schedule(ctx->user_op_conf()).arguments();
    a.step = step;
    a.out = ctx->Out("out").mut_raw_dptr();
    a.isDouble = ctx->Out("out").data_type() == kDouble;
    a.fault = cuda::CudaLaunch::of(ctx->device_ctx()).watch(*ctx, "train_step", [](int64_t, int64_t value) {
      return "train_step is " + std::to_string(value);
    });
    return bindSingle(ctx, "learning_rate_schedule", a);
  }
  return bindTask([=, out = &ctx->Out("out"), schedule = Schedule(ctx->user_op_conf())](DeviceCtx *) {
    if (*step < 0) throw ContractError("train_step is " + std::to_string(*step));
    putScalar(out, schedule.at(*step));
  });
}

Maybe<void> infer(InferContext *ctx) {
  JUST(checkScalar(ctx, "train_step", kInt64));
  return setOut(ctx, "out", TensorDesc(Shape({1}), JUST(rateType(ctx))));
}

Case at(const char *name, int64_t step) {
  return Case(name)
      .In("train_step", kInt64, {1}, static_cast<double>(step), static_cast<double>(step) + 1)
      .Attr("learning_rate", 0.5)
      .Attr("dtype", kDouble);
}
Case decay(const char *name, const char *type, int64_t step) {
  return at(name, step).Attr("decay_type", std::string(type)).Attr<int64_t>("decay_batches", 40);
}

REGISTER_USER_OP("learning_rate_schedule")
    .With(TensorArgs{{"train_step"}, {"out"}})
    .RequiredAttr<double>("learning_rate")
    .Attr<std::string>("warmup_type", "")
    .Attr<int64_t>("warmup_batches", 0)
    .Attr<double>("warmup_multiplier", 0.0)
    .Attr<std::string>("decay_type", "")
    .Attr<bool>("exclude_warmup", false)
    .Attr<int64_t>("decay_batches", 0)
    .Attr<double>("decay_rate", 0.0)
    .Attr<bool>("staircase", false)
    .Attr<std::vector<int64_t>>("boundaries", {})
    .Attr<std::vector<float>>("values", {})
    .Attr<std::vector<float>>("scales", {})
    .Attr<double>("end_learning_rate", 0.0001)
    .Attr<double>("power", 1.0)
    .Attr<bool>("cycle", false)
    .Attr<double>("alpha", 0.0)
    .Attr<double>("num_periods", 0.5)
    .Attr<double>("beta", 0.001)
    .Attr<std::vector<int64_t>>("milestones", {})
    .Attr<int64_t>("step_size", 0)
    .Attr<double>("gamma", 0.1)
    .Attr<int64_t>("t_max", 0)
    .Attr<double>("eta_min", 0.0)
    .Attr<double>("start_factor", 1.0)
    .Attr<double>("end_factor", 1.0)
    .Attr<double>("factor", 1.0)
    .Attr<int64_t>("total_iters", 0)
    .Attr<DataType>("dtype", kFloat)
    .SetCheckAttrFn([](const UserOpDefWrapper &, const UserOpConfWrapper &conf) -> Maybe<void> {
      if (const std::string fault = Schedule(conf).fault(); !fault.empty()) return Error("OPC0205") << fault;
      return Maybe<void>::Ok();
    })
    .SetTensorDescInferFn(infer)
    .NoGrad("it depends on the step alone")
    .Doc("The learning rate of step train_step (i64, of one element, 0 in the first step), f32 or f64 as dtype says. "
         "The first warmup_batches steps: learning_rate * warmup_multiplier (warmup_type constant), or linear from "
         "there to learning_rate. Then decay_type over the step t (without the warm-up's with exclude_warmup), x = t "
         "/ decay_batches, rounded down with staircase: exponential, rate * decay_rate^x; inverse_time, rate / (1 + "
         "decay_rate * x); natural_exp, rate * exp(-decay_rate * x); polynomial, (rate - end_learning_rate) * (1 - "
         "x)^power + end_learning_rate, with cycle over the next multiple of decay_batches; cosine, rate * ((1 - "
         "alpha) * (1 + cos(pi * x)) / 2 + alpha); linear_cosine, rate * ((alpha + 1 - x) * (1 + cos(2 * pi * "
         "num_periods * x)) / 2 + beta); piecewise_constant and piecewise_scaling, values[i] and rate * scales[i] up "
         "to and with step boundaries[i]; multi_step, rate * gamma^(milestones reached); step, rate * gamma^floor(t "
         "/ step_size); cosine_annealing, eta_min + (rate - eta_min) * (1 + cos(pi * t / t_max)) / 2; linear_lr, "
         "rate times a factor from start_factor to end_factor over total_iters steps; constant_lr, rate * factor for "
         "total_iters steps. The attributes are named after OneFlow's LearningRateDecayConf and WarmupConf.")
    .Cases({at("constant", 7).Attr("dtype", kFloat),
            at("warmup_linear", 3)
                .Attr("warmup_type", std::string("linear"))
                .Attr<int64_t>("warmup_batches", 8)
                .Attr("warmup_multiplier", 0.25),
            at("warmup_constant", 3)
                .Attr("warmup_type", std::string("constant"))
                .Attr<int64_t>("warmup_batches", 8)
                .Attr("warmup_multiplier", 0.25),
            decay("after_warmup", "cosine", 18)
                .Attr("warmup_type", std::string("linear"))
                .Attr<int64_t>("warmup_batches", 8)
                .Attr("exclude_warmup", true),
            decay("exponential", "exponential", 90).Attr("decay_rate", 0.5),
            decay("exponential_stairs", "exponential", 90).Attr("decay_rate", 0.5).Attr("staircase", true),
            decay("inverse_time", "inverse_time", 90).Attr("decay_rate", 0.5),
            decay("natural_exp", "natural_exp", 90).Attr("decay_rate", 0.5),
            decay("polynomial", "polynomial", 10).Attr("power", 2.0),
            decay("polynomial_end", "polynomial", 90),
            decay("polynomial_cycle", "polynomial", 90).Attr("cycle", true),
            decay("cosine", "cosine", 10).Attr("alpha", 0.125),
            decay("cosine_end", "cosine", 90),
            decay("linear_cosine", "linear_cosine", 10),
            decay("piecewise_constant_0", "piecewise_constant", 10)
                .Attr<std::vector<int64_t>>("boundaries", {10, 20})
                .Attr<std::vector<float>>("values", {0.5f, 0.25f, 0.125f}),
            decay("piecewise_constant_1", "piecewise_constant", 11)
                .Attr<std::vector<int64_t>>("boundaries", {10, 20})
                .Attr<std::vector<float>>("values", {0.5f, 0.25f, 0.125f}),
            decay("piecewise_scaling", "piecewise_scaling", 25)
                .Attr<std::vector<int64_t>>("boundaries", {10, 20})
                .Attr<std::vector<float>>("scales", {1.0f, 0.5f, 0.25f}),
            decay("multi_step", "multi_step", 20).Attr<std::vector<int64_t>>("milestones", {10, 20, 30}),
            decay("step", "step", 25).Attr<int64_t>("step_size", 10).Attr("gamma", 0.5),
            decay("cosine_annealing", "cosine_annealing", 25).Attr<int64_t>("t_max", 30).Attr("eta_min", 0.01),
            decay("linear_lr", "linear_lr", 5)
                .Attr("start_factor", 0.25)
                .Attr("end_factor", 0.75)
                .Attr<int64_t>("total_iters", 20),
            decay("constant_lr", "constant_lr", 5).Attr("factor", 0.25).Attr<int64_t>("total_iters", 20)})
    .With(onCpuAndGpu<FunctionKernel<bindSchedule>>());

} // namespace
} // namespace opc::ops::optimizer
