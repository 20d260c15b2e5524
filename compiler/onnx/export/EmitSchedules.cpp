// Schedules of the learning rate as ONNX: their formulas over the step, in f64.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmitters.h"

namespace opc::onnx_export {
namespace {

constexpr double kPi = 3.141592653589793;

class Schedule {
public:
  explicit Schedule(Emission &e) : e_(e), rate_(e.f("learning_rate")) {}

  Wire write() {
    const Wire step = e_.cast(e_.reshape(e_.raw("train_step"), Shape()), kDouble);
    const double warm = static_cast<double>(e_.i("warmup_batches"));
    const Wire late = decayed(e_.b("exclude_warmup") ? e_.plus(step, -warm) : step);
    if (warm == 0) return late;
    const double k = e_.f("warmup_multiplier");
    const Wire early = e_.s("warmup_type") == "constant"
                           ? number(rate_ * k)
                           : e_.scaled(e_.plus(e_.scaled(step, (1 - k) / warm), k), rate_);
    return e_.select(e_.test("Less", step, number(warm)), early, late);
  }

private:
  Wire number(double v) { return e_.constant(kDouble, Shape(), {v}); }
  Wire least(const Wire &x, double v) { return e_.binary("Min", x, number(v)); }
  Wire power(double base, const Wire &x) { return e_.binary("Pow", number(base), x); }
  /// (1 + cos(factor * x)) / 2.
  Wire wave(const Wire &x, double factor) { return e_.scaled(e_.plus(cosine(e_.scaled(x, factor)), 1), 0.5); }
  /// For which more runtimes have f32 alone.
  Wire cosine(const Wire &x) { return e_.cast(e_.unary("Cos", e_.cast(x, kFloat)), kDouble); }
  /// The value of the piece that the step is in; a boundary is the last step of its piece, or the first of the next.
  Wire piecewise(const Wire &step, const std::vector<int64_t> &ends, const std::vector<double> &values,
                 const char *past) {
    Wire value = number(values[0]);
    for (size_t k = 0; k < ends.size(); ++k)
      value = e_.select(e_.test(past, step, number(static_cast<double>(ends[k]))), number(values[k + 1]), value);
    return value;
  }
  std::vector<double> listed(const char *attr, double factor) {
    std::vector<double> values;
    for (const float v : e_.instance.wrapper().attr<std::vector<float>>(attr))
      values.push_back(static_cast<double>(v) * factor);
    return values;
  }

  Wire decayed(const Wire &step) {
    const std::string kind = e_.s("decay_type");
    const double n = static_cast<double>(e_.i("decay_batches"));
    Wire x = n != 0 ? e_.scaled(step, 1 / n) : step;
    const double k = e_.f("decay_rate");
    if (e_.b("staircase") && n != 0) x = e_.unary("Floor", e_.div(step, number(n)));
    if (kind == "exponential") return e_.scaled(power(k, x), rate_);
    if (kind == "inverse_time") return e_.div(number(rate_), e_.plus(e_.scaled(x, k), 1));
    if (kind == "natural_exp") return e_.scaled(e_.unary("Exp", e_.scaled(x, -k)), rate_);
    if (kind == "piecewise_constant") return piecewise(step, e_.ints("boundaries"), listed("values", 1), "Greater");
    if (kind == "piecewise_scaling") return piecewise(step, e_.ints("boundaries"), listed("scales", rate_), "Greater");
    if (kind == "polynomial") return polynomial(step, n);
    if (kind == "cosine")
      return e_.scaled(e_.plus(e_.scaled(wave(least(x, 1), kPi), 1 - e_.f("alpha")), e_.f("alpha")), rate_);
    if (kind == "linear_cosine") {
      const Wire part = least(x, 1), height = e_.sub(number(e_.f("alpha") + 1), part);
      return e_.scaled(e_.plus(e_.mul(height, wave(part, 2 * kPi * e_.f("num_periods"))), e_.f("beta")), rate_);
    }
    return steps(kind, step);
  }

  Wire polynomial(const Wire &step, double n) {
    const Wire whole = e_.b("cycle")
                           ? e_.scaled(e_.binary("Max", e_.unary("Ceil", e_.div(step, number(n))), number(1)), n)
                           : number(n);
    const Wire left = e_.sub(number(1), e_.div(e_.binary("Min", step, whole), whole));
    const double end = e_.f("end_learning_rate");
    return e_.plus(e_.scaled(e_.binary("Pow", left, number(e_.f("power"))), rate_ - end), end);
  }

  Wire steps(const std::string &kind, const Wire &step) {
    const double total = static_cast<double>(e_.i("total_iters")), gamma = e_.f("gamma");
    if (kind == "multi_step") {
      std::vector<double> values = {rate_};
      for (size_t k = 0; k < e_.ints("milestones").size(); ++k) values.push_back(values.back() * gamma);
      return piecewise(step, e_.ints("milestones"), values, "GreaterOrEqual");
    }
    if (kind == "step")
      return e_.scaled(power(gamma, e_.unary("Floor", e_.div(step, number(static_cast<double>(e_.i("step_size")))))),
                       rate_);
    if (kind == "cosine_annealing") {
      const double low = e_.f("eta_min");
      return e_.plus(e_.scaled(wave(step, kPi / static_cast<double>(e_.i("t_max"))), rate_ - low), low);
    }
    if (kind == "linear_lr") {
      const double from = e_.f("start_factor"), to = e_.f("end_factor");
      return e_.scaled(e_.plus(e_.scaled(least(step, total), (to - from) / total), from), rate_);
    }
    if (kind == "constant_lr")
      return e_.select(e_.test("Less", step, number(total)), number(rate_ * e_.f("factor")), number(rate_));
    if (kind.empty()) return number(rate_);
    e_.refuse("a decay of kind " + kind);
  }

  Emission &e_;
  const double rate_;
};

} // namespace

void addSchedules(EmitterTable *t) {
  t->add(
      "learning_rate_schedule", Types::kOwn,
      [](Emission &e) { e.out(e.reshape(Schedule(e).write(), e.madeFirst().shape())); }, "its formula");
}

} // namespace opc::onnx_export
