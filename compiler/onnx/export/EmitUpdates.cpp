// Updates of training as ONNX: what a variable holds after the step is an output of the model, NAME.next.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmitters.h"

namespace opc::onnx_export {
namespace {

/// An input of one element as a number.
Wire scalarIn(Emission &e, const char *arg, const Wire &like) {
  return e.cast(e.reshape(e.raw(arg), Shape()), like.type);
}

/// What the updates share.
struct Update {
  Emission &e;
  Wire w, g, rate; // g: scaled and regularised
  explicit Update(Emission &e) : e(e), w(e.in("model")) {
    g = e.scaled(e.in("model_diff"), e.f("scale"));
    if (e.has("scale_by_tensor")) g = e.mul(g, scalarIn(e, "scale_by_tensor", g));
    if (e.f("l1") != 0) g = e.add(g, e.scaled(e.unary("Sign", w), e.f("l1")));
    if (e.f("l2") != 0) g = e.add(g, e.scaled(w, e.f("l2")));
    rate = e.has("learning_rate") ? scalarIn(e, "learning_rate", w) : e.number(w, e.f("learning_rate_val"));
    rate = e.scaled(rate, e.f("learning_rate_scale"));
  }
  Wire square(const Wire &x) const { return e.mul(x, x); }
  Wire mixed(const Wire &old, double keep, const Wire &now) const {
    return e.add(e.scaled(old, keep), e.scaled(now, 1 - keep));
  }
  /// direction + weight_decay * w.
  Wire decayed(const Wire &direction) const { return e.add(direction, e.scaled(w, e.f("weight_decay"))); }
  Wire step(const Wire &direction) const { return e.sub(w, e.mul(rate, direction)); }
  /// Nothing changes where skip_if is not 0.
  void write(const char *arg, const Wire &value) const {
    if (!e.has(arg)) return;
    const Wire old = e.in(arg);
    const Wire now = e.reshape(value, old.shape);
    if (!e.has("skip_if")) return e.next(arg, now);
    e.next(arg, e.select(e.cast(e.reshape(e.raw("skip_if"), Shape()), kBool), old, now));
  }
  void writeModel(const Wire &value) const {
    write("model", value);
    if (!e.has("model_copy")) return;
    Wire copied = value;
    if (e.has("skip_if")) copied = e.select(e.cast(e.reshape(e.raw("skip_if"), Shape()), kBool), w, value);
    e.next("model_copy", copied);
  }
};

void convertAssign(Emission &e) { e.next("ref", e.in("value")); }

void convertSgd(Emission &e) {
  const Update u(e);
  u.writeModel(u.step(u.decayed(u.g)));
}

void convertMomentum(Emission &e) {
  const Update u(e);
  const double beta = e.f("beta");
  const Wire momentum = e.add(e.scaled(e.in("momentum"), beta), e.scaled(u.g, 1 - e.f("dampening")));
  const Wire direction = e.b("nesterov") ? e.add(u.g, e.scaled(momentum, beta)) : momentum;
  u.write("momentum", momentum);
  u.writeModel(u.step(u.decayed(e.b("maximize") ? e.unary("Neg", direction) : direction)));
}

struct Means {
  Wire m, v, first, second; // and what they are divided by
};
Means meansOf(Emission &e, const Update &u) {
  const double b1 = e.f("beta1"), b2 = e.f("beta2");
  Means means{u.mixed(e.in("m"), b1, u.g), u.mixed(e.in("v"), b2, u.square(u.g)), {}, {}};
  means.first = means.second = e.number(u.w, 1);
  if (!e.b("do_bias_correction")) return means;
  const auto correction = [&](const char *arg, const char *value) {
    return e.has(arg) ? scalarIn(e, arg, u.w) : e.number(u.w, e.f(value));
  };
  means.first = correction("bias_correction1", "bias_correction1_val");
  means.second = correction("bias_correction2", "bias_correction2_val");
  return means;
}

Wire directionOf(Emission &e, const Means &means, const Wire &v) {
  return e.div(e.div(means.m, means.first), e.plus(e.unary("Sqrt", e.div(v, means.second)), e.f("epsilon")));
}

void convertAdam(Emission &e) {
  const Update u(e);
  const Means means = meansOf(e, u);
  const Wire v = e.b("amsgrad") ? e.binary("Max", e.in("max_v"), means.v) : means.v;
  u.write("m", means.m);
  u.write("v", means.v);
  if (e.b("amsgrad"))
    u.write("max_v", v);
  else if (e.has("max_v"))
    e.next("max_v", e.in("max_v"));
  u.writeModel(u.step(u.decayed(directionOf(e, means, v))));
}

/// Norms of the model and of what it is compared with: measured, or from sums of squares.
std::pair<Wire, Wire> normsOf(Emission &e, const Update &u, const Wire &other) {
  if (e.has("norms")) {
    const Wire both = e.cast(e.unary("Sqrt", e.raw("norms")), u.w.type);
    return {e.reshape(e.slice(both, 0, 0, 1), Shape()), e.reshape(e.slice(both, 0, 1, 2), Shape())};
  }
  const auto norm = [&](const Wire &x) {
    const Wire flat = e.reshape(x, {x.shape.elem_cnt()});
    return e.unary("Sqrt", e.reduce("ReduceSum", e.mul(flat, flat), {0}, false));
  };
  return {norm(u.w), norm(other)};
}

/// `rate` where a norm is 0, `value` elsewhere: a variable that begins at 0 moves.
Wire whereBoth(Emission &e, const Wire &size, const Wire &length, const Wire &value, const Wire &rate) {
  const auto isSome = [&](const Wire &norm) { return e.test("Greater", norm, e.number(norm, 0)); };
  return e.select(e.test("And", isSome(size), isSome(length)), value, rate);
}

/// With the powers of both betas as variables.
Means lambMeans(Emission &e, const Update &u, bool writes) {
  Means means = meansOf(e, u);
  if (!e.has("beta1_t")) return means;
  const auto power = [&](const char *arg, const char *beta, Wire *to) {
    const Wire now = e.scaled(e.in(arg), e.f(beta));
    *to = e.sub(e.number(u.w, 1), e.cast(e.reshape(now, Shape()), u.w.type));
    if (writes) u.write(arg, now);
  };
  power("beta1_t", "beta1", &means.first);
  power("beta2_t", "beta2", &means.second);
  return means;
}

void convertLamb(Emission &e) {
  const Update u(e);
  const Means means = lambMeans(e, u, true);
  const Wire direction = directionOf(e, means, means.v);
  const auto [size, length] = normsOf(e, u, direction);
  u.write("m", means.m);
  u.write("v", means.v);
  const Wire rate = whereBoth(e, size, length, e.div(e.mul(u.rate, size), length), u.rate);
  u.writeModel(e.sub(u.w, e.mul(rate, u.decayed(direction))));
}

/// Sums of squares, in f64.
void convertNorms(Emission &e, const Wire &w, const Wire &other) {
  const auto sum = [&](const Wire &x) {
    const Wire flat = e.reshape(e.cast(x, kDouble), {x.shape.elem_cnt()});
    return e.reduce("ReduceSum", e.mul(flat, flat), {0});
  };
  e.out(e.concat({sum(w), sum(other)}, 0));
}

void convertLars(Emission &e) {
  const Update u(e);
  const auto [size, slope] = normsOf(e, u, u.g);
  const double decay = e.f("weight_decay");
  const Wire below = e.plus(e.add(slope, e.scaled(size, decay)), e.f("epsilon"));
  const Wire local =
      whereBoth(e, size, slope, e.div(e.mul(e.scaled(u.rate, e.f("lars_coefficient")), size), below), u.rate);
  const Wire momentum = e.sub(e.scaled(e.in("momentum"), e.f("momentum_beta")), e.mul(local, u.g));
  u.write("momentum", momentum);
  u.writeModel(e.sub(e.add(u.w, momentum), e.mul(local, e.scaled(u.w, decay))));
}

void convertRmsprop(Emission &e) {
  const Update u(e);
  const double keep = e.f("decay_rate");
  const Wire square = u.mixed(e.in("mean_square"), keep, u.square(u.g));
  Wire variance = square;
  u.write("mean_square", square);
  if (e.b("centered")) {
    const Wire mean = u.mixed(e.in("mean_gradient"), keep, u.g);
    u.write("mean_gradient", mean);
    variance = e.sub(variance, u.square(mean));
  } else if (e.has("mean_gradient")) {
    e.next("mean_gradient", e.in("mean_gradient"));
  }
  u.writeModel(u.step(u.decayed(e.div(u.g, e.unary("Sqrt", e.plus(variance, e.f("epsilon")))))));
}

void convertAdagrad(Emission &e) {
  Update u(e);
  const Wire step =
      e.has("train_step") ? scalarIn(e, "train_step", u.w) : e.number(u.w, static_cast<double>(e.i("train_step_val")));
  u.rate = e.div(u.rate, e.plus(e.scaled(step, e.f("lr_decay")), 1));
  const Wire sum = e.add(e.in("sum"), u.square(u.g));
  u.write("sum", sum);
  u.writeModel(u.step(u.decayed(e.div(u.g, e.plus(e.unary("Sqrt", sum), e.f("epsilon"))))));
}

void convertRegularize(Emission &e) {
  const Wire w = e.in("model");
  Wire g = e.in("model_diff");
  if (e.f("l1") != 0) g = e.add(g, e.scaled(e.unary("Sign", w), e.f("l1")));
  if (e.f("l2") != 0) g = e.add(g, e.scaled(w, e.f("l2")));
  e.out(g);
}

/// 1 - beta to the power of the next step.
Wire corrected(Emission &e, double beta) {
  const Wire power = e.plus(e.cast(e.raw("train_step"), kDouble), 1);
  return e.sub(e.number(power, 1), e.binary("Pow", e.number(power, beta), power));
}

void convertLossScale(Emission &e) {
  const Wire bad = e.cast(e.reshape(e.raw("count_not_finite"), Shape()), kBool), scale = e.in("loss_scale"),
             good = e.in("good_step_counter");
  const double by = e.f("multiplier");
  const Wire more = e.plus(good, 1),
             period = e.test("GreaterOrEqual", more, e.integers({e.i("increment_period")}, Shape()));
  const Wire down = e.binary("Max", e.scaled(scale, 1 / by), e.number(scale, 1));
  Wire scaled = e.select(bad, down, e.select(period, e.scaled(scale, by), scale)),
       counted = e.select(e.test("Or", bad, period), e.number(good, 0), more);
  if (e.has("skip_if")) {
    const Wire skips = e.cast(e.reshape(e.raw("skip_if"), Shape()), kBool);
    scaled = e.select(skips, scale, scaled), counted = e.select(skips, good, counted);
  }
  e.next("loss_scale", scaled);
  e.next("good_step_counter", counted);
}

} // namespace

void addUpdates(EmitterTable *t) {
  const auto add = [&](const char *op, void (*emit)(Emission &)) {
    t->add(op, Types::kWide, emit, "its formula", "new values are outputs NAME.next");
  };
  add("sgd_update", convertSgd);
  add("momentum_update", convertMomentum);
  add("adam_update", convertAdam);
  add("lamb_update", convertLamb);
  add("lars_update", convertLars);
  add("rmsprop_update", convertRmsprop);
  add("adagrad_update", convertAdagrad);
  add("dynamic_loss_scale_schedule", convertLossScale);
  t->add("assign", Types::kOwn, convertAssign, "nothing", "the new value is an output NAME.next");
  t->add(
      "lamb_norms", Types::kWide,
      [](Emission &e) {
        const Update u(e);
        const Means means = lambMeans(e, u, false);
        convertNorms(e, u.w, directionOf(e, means, means.v));
      },
      "its formula");
  t->add(
      "lars_norms", Types::kWide,
      [](Emission &e) {
        const Update u(e);
        convertNorms(e, u.w, u.g);
      },
      "its formula");
  t->add("l1_l2_regularize_gradient", Types::kWide, convertRegularize, "Sign, Mul, Add");
  t->add(
      "adam_bias_correction_factor", Types::kWide, [](Emission &e) { e.out(corrected(e, e.f("beta"))); }, "Pow, Sub");
  t->add(
      "adam_bias_correction_learning_rate", Types::kWide,
      [](Emission &e) {
        const Wire first = corrected(e, e.f("beta1")), second = corrected(e, e.f("beta2"));
        e.out(e.div(e.mul(e.cast(e.raw("learning_rate"), kDouble), e.unary("Sqrt", second)), first));
      },
      "Pow, Sub, Sqrt, Mul, Div");
}

} // namespace opc::onnx_export
