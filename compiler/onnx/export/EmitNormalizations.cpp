// Normalisations, softmax and their gradients as ONNX.
// SPDX-License-Identifier: Apache-2.0
#include "EmitWindows.h"
#include "OnnxEmitters.h"

#include <numeric>

namespace opc::onnx_export {
namespace {

std::vector<int64_t> axesFrom(int64_t begin, int64_t end) {
  std::vector<int64_t> axes(static_cast<size_t>(std::max<int64_t>(end - begin, 0)));
  std::iota(axes.begin(), axes.end(), begin);
  return axes;
}

/// One value for each of x's first dimensions, to be broadcast over the rest.
Wire perRow(Emission &e, const Wire &statistic, const Wire &x, int64_t rows) {
  std::vector<int64_t> dims(x.shape.begin(), x.shape.begin() + rows);
  dims.resize(static_cast<size_t>(x.rank()), 1);
  return e.reshape(statistic, dims);
}

Wire perChannel(Emission &e, const Wire &values, const Wire &x, int64_t axis) {
  std::vector<int64_t> dims(static_cast<size_t>(x.rank()), 1);
  dims[static_cast<size_t>(axis)] = values.shape.elem_cnt();
  return e.reshape(values, dims);
}

struct Standard {
  Wire mean, inverse, apart; // inverse: of the deviation
};
Standard standardized(Emission &e, const Wire &x, const std::vector<int64_t> &axes, double epsilon) {
  const Wire mean = e.reduce("ReduceMean", x, axes), apart = e.sub(x, mean);
  const Wire variance = e.reduce("ReduceMean", e.mul(apart, apart), axes);
  return {mean, e.unary("Reciprocal", e.unary("Sqrt", e.plus(variance, epsilon))), apart};
}

Wire plusAddend(Emission &e, const Wire &y) { return e.has("_add_to_output") ? e.add(y, e.in("_add_to_output")) : y; }

void shapedOut(Emission &e, const char *arg, const Wire &value) {
  if (e.wants(arg)) e.out(arg, e.reshape(value, e.made(arg).shape()));
}

void convertLayerNorm(Emission &e) {
  const Wire x = e.in("x");
  const int64_t begin = (e.i("begin_norm_axis") + x.rank()) % x.rank();
  const int64_t params = (e.i("begin_params_axis") + x.rank()) % x.rank();
  const Shape normal(x.shape.ptr() + begin, x.rank() - begin);
  if (x.type != kDouble && (params == begin || !(e.has("gamma") || e.has("beta")))) {
    std::vector<Wire> inputs = {x, e.has("gamma") ? e.reshape(e.in("gamma"), normal) : e.filled(x.type, normal, 1)};
    if (e.has("beta")) inputs.push_back(e.reshape(e.in("beta"), normal));
    Shape rows = x.shape;
    for (int64_t k = begin; k < x.rank(); ++k) rows.Set(k, 1);
    const auto made = e.nodes("LayerNormalization", inputs, {{"axis", begin}, {"epsilon", e.f("epsilon")}},
                              {{x.type, x.shape}, {kFloat, rows}, {kFloat, rows}});
    shapedOut(e, "mean", made[1]);
    shapedOut(e, "inv_variance", made[2]);
    return e.out("y", made[0]);
  }
  const Standard s = standardized(e, x, axesFrom(begin, x.rank()), e.f("epsilon"));
  Wire y = e.mul(s.apart, s.inverse);
  if (e.has("gamma")) y = e.mul(y, e.in("gamma"));
  if (e.has("beta")) y = e.add(y, e.in("beta"));
  shapedOut(e, "mean", s.mean);
  shapedOut(e, "inv_variance", s.inverse);
  e.out("y", y);
}

/// inverse * (d - mean(d) - xhat * mean(d * xhat)).
Wire normalGrad(Emission &e, const Wire &d, const Wire &xhat, const Wire &inverse, const std::vector<int64_t> &axes) {
  const Wire along = e.mul(xhat, e.reduce("ReduceMean", e.mul(d, xhat), axes));
  return e.mul(inverse, e.sub(e.sub(d, e.reduce("ReduceMean", d, axes)), along));
}

void convertLayerNormGrad(Emission &e) {
  const Wire x = e.in("x"), dy = e.in("dy");
  const int64_t begin = (e.i("begin_norm_axis") + x.rank()) % x.rank();
  const Wire inverse = perRow(e, e.in("inv_variance"), x, begin);
  const Wire xhat = e.mul(e.sub(x, perRow(e, e.in("mean"), x, begin)), inverse);
  const Wire d = e.has("gamma") ? e.mul(dy, e.in("gamma")) : dy;
  e.out(plusAddend(e, normalGrad(e, d, xhat, inverse, axesFrom(begin, x.rank()))));
}

void convertLayerNormParamGrad(Emission &e) {
  const Wire x = e.in("x"), dy = e.in("dy"), mean = e.in("mean");
  const std::vector<int64_t> over = axesFrom(0, (e.i("begin_params_axis") + x.rank()) % x.rank());
  if (e.wants("gamma_diff")) {
    const int64_t rows = mean.rank();
    const Wire xhat = e.mul(e.sub(x, perRow(e, mean, x, rows)), perRow(e, e.in("inv_variance"), x, rows));
    shapedOut(e, "gamma_diff", e.reduce("ReduceSum", e.mul(dy, xhat), over));
  }
  shapedOut(e, "beta_diff", e.reduce("ReduceSum", dy, over));
}

void convertRmsNorm(Emission &e) {
  const Wire x = e.in("x");
  const int64_t begin = x.rank() - static_cast<int64_t>(e.ints("normalized_shape").size());
  const Wire mean = e.reduce("ReduceMean", e.mul(x, x), axesFrom(begin, x.rank()));
  const Wire inverse = e.unary("Reciprocal", e.unary("Sqrt", e.plus(mean, e.f("epsilon"))));
  Wire y = e.mul(x, inverse);
  if (e.has("weight")) y = e.mul(y, e.in("weight"));
  shapedOut(e, "inv_rms", inverse);
  e.out("y", y);
}

void convertRmsNormGrad(Emission &e) {
  const Wire x = e.in("x"), dy = e.in("dy"), statistic = e.in("inv_rms");
  const Wire inverse = perRow(e, statistic, x, statistic.rank()), xhat = e.mul(x, inverse);
  const Wire d = e.has("weight") ? e.mul(dy, e.in("weight")) : dy;
  const Wire mean = e.reduce("ReduceMean", e.mul(d, xhat), axesFrom(statistic.rank(), x.rank()));
  e.out(e.mul(inverse, e.sub(d, e.mul(xhat, mean))));
}

void convertRmsNormParamGrad(Emission &e) {
  const Wire x = e.in("x"), statistic = e.in("inv_rms");
  const Wire xhat = e.mul(x, perRow(e, statistic, x, statistic.rank()));
  e.out(
      e.reshape(e.reduce("ReduceSum", e.mul(e.in("dy"), xhat), axesFrom(0, statistic.rank())), e.madeFirst().shape()));
}

/// [n, groups, elements].
Wire grouped(Emission &e, const Wire &x, int64_t groups) {
  return e.reshape(x, {x.dim(0), groups, x.shape.elem_cnt() / std::max<int64_t>(x.dim(0) * groups, 1)});
}

void convertGroupNorm(Emission &e) {
  const bool isLast = isChannelsLast(e);
  const Wire x = channelsFirst(e, e.in("x"), isLast);
  const Standard s = standardized(e, grouped(e, x, e.i("num_groups")), {2}, e.f("epsilon"));
  Wire y = e.reshape(e.mul(s.apart, s.inverse), x.shape);
  if (e.has("gamma")) y = e.mul(y, perChannel(e, e.in("gamma"), y, 1));
  if (e.has("beta")) y = e.add(y, perChannel(e, e.in("beta"), y, 1));
  if (e.s("activation") == "silu") y = e.mul(y, e.unary("Sigmoid", y));
  shapedOut(e, "mean", s.mean);
  shapedOut(e, "inv_variance", s.inverse);
  e.out("y", channelsBack(e, y, isLast));
}

struct GroupGrad {
  Wire dy, xhat, inverse; // dy with channels first; xhat in groups
};
GroupGrad groupGrad(Emission &e, bool isLast) {
  const Wire x = channelsFirst(e, e.in("x"), isLast), mean = e.in("mean"), inverse = e.in("inv_variance");
  const int64_t groups = mean.dim(1);
  const Wire wide = e.reshape(inverse, {x.dim(0), groups, 1});
  const Wire apart = e.sub(grouped(e, x, groups), e.reshape(mean, {x.dim(0), groups, 1}));
  return {channelsFirst(e, e.in("dy"), isLast), e.mul(apart, wide), wide};
}

void convertGroupNormGrad(Emission &e) {
  const bool isLast = isChannelsLast(e);
  const GroupGrad g = groupGrad(e, isLast);
  Wire d = e.has("gamma") ? e.mul(g.dy, perChannel(e, e.in("gamma"), g.dy, 1)) : g.dy;
  d = grouped(e, d, g.xhat.dim(1));
  e.out(channelsBack(e, e.reshape(normalGrad(e, d, g.xhat, g.inverse, {2}), g.dy.shape), isLast));
}

void convertGroupNormParamGrad(Emission &e) {
  const GroupGrad g = groupGrad(e, isChannelsLast(e));
  std::vector<int64_t> over = axesFrom(2, g.dy.rank());
  over.insert(over.begin(), 0);
  shapedOut(e, "dgamma", e.reduce("ReduceSum", e.mul(g.dy, e.reshape(g.xhat, g.dy.shape)), over));
  shapedOut(e, "dbeta", e.reduce("ReduceSum", g.dy, over));
}

std::vector<int64_t> others(const Wire &x, int64_t axis) {
  std::vector<int64_t> axes;
  for (int64_t k = 0; k < x.rank(); ++k)
    if (k != axis) axes.push_back(k);
  return axes;
}

void convertNormalization(Emission &e) {
  const Wire x = e.in("x"), gamma = e.in("gamma"), beta = e.in("beta");
  const int64_t axis = (e.i("axis") + x.rank()) % x.rank();
  const double epsilon = e.f("epsilon");
  Wire y, mean, inverse;
  if (e.b("training")) {
    const Standard s = standardized(e, x, others(x, axis), epsilon);
    mean = s.mean, inverse = s.inverse;
    y = e.add(e.mul(e.mul(s.apart, inverse), perChannel(e, gamma, x, axis)), perChannel(e, beta, x, axis));
    if (e.has("moving_mean")) {
      const double keep = e.f("momentum"),
                   n = static_cast<double>(x.shape.elem_cnt() / std::max<int64_t>(x.dim(axis), 1));
      const Wire variance = e.scaled(e.reduce("ReduceMean", e.mul(s.apart, s.apart), others(x, axis)), n / (n - 1));
      const auto moved = [&](const char *arg, const Wire &now) {
        const Wire old = e.in(arg);
        e.next(arg, e.add(e.scaled(old, keep), e.scaled(e.reshape(now, old.shape), 1 - keep)));
      };
      moved("moving_mean", mean);
      moved("moving_variance", variance);
    }
  } else {
    mean = e.in("moving_mean");
    const Wire variance = e.in("moving_variance");
    if (axis == 1 && x.type != kDouble && !e.wants("inv_variance")) {
      y = e.node("BatchNormalization", {x, gamma, beta, mean, variance}, {{"epsilon", epsilon}}, x.type, x.shape);
    } else {
      inverse = e.unary("Reciprocal", e.unary("Sqrt", e.plus(variance, epsilon)));
      const Wire apart = e.sub(x, perChannel(e, mean, x, axis));
      y = e.add(e.mul(apart, perChannel(e, e.mul(inverse, gamma), x, axis)), perChannel(e, beta, x, axis));
    }
  }
  shapedOut(e, "mean", mean);
  if (e.wants("inv_variance")) shapedOut(e, "inv_variance", inverse);
  e.out("y", plusAddend(e, y));
}

void convertNormalizationGrad(Emission &e) {
  const Wire x = e.in("x"), dy = e.in("dy");
  const int64_t axis = (e.i("axis") + x.rank()) % x.rank();
  const std::vector<int64_t> over = others(x, axis);
  const Wire inverse = perChannel(e, e.in("inv_variance"), x, axis);
  const Wire xhat = e.mul(e.sub(x, perChannel(e, e.in("mean"), x, axis)), inverse);
  shapedOut(e, "gamma_diff", e.reduce("ReduceSum", e.mul(dy, xhat), over));
  shapedOut(e, "beta_diff", e.reduce("ReduceSum", dy, over));
  if (!e.wants("dx")) return;
  const Wire d = e.mul(dy, perChannel(e, e.in("gamma"), x, axis));
  e.out("dx", e.b("training") ? normalGrad(e, d, xhat, inverse, over) : e.mul(d, inverse));
}

void convertL2(Emission &e) {
  const Wire x = e.in("x");
  const int64_t axis = (e.i("axis") + x.rank()) % x.rank();
  const Wire sum = e.reduce("ReduceSum", e.mul(x, x), {axis});
  shapedOut(e, "square_x_sum", sum);
  e.out("y", e.div(x, e.unary("Sqrt", e.binary("Max", sum, e.number(sum, e.f("epsilon"))))));
}

void convertL2Grad(Emission &e) {
  const Wire dy = e.in("dy"), y = e.in("y"), sum = e.in("square_x_sum");
  const int64_t axis = (e.i("axis") + y.rank()) % y.rank();
  const Wire epsilon = e.number(sum, e.f("epsilon"));
  const Wire along =
      e.select(e.test("GreaterOrEqual", sum, epsilon), e.reduce("ReduceSum", e.mul(y, dy), {axis}), e.number(sum, 0));
  e.out(e.div(e.sub(dy, e.mul(y, along)), e.unary("Sqrt", e.binary("Max", sum, epsilon))));
}

void convertSoftmax(Emission &e, const char *type) { e.out(e.unary(type, e.in("in"), {{"axis", -1}})); }

void convertSoftmaxGrad(Emission &e) {
  const Wire y = e.in("y"), dy = e.in("dy");
  e.out(e.mul(y, e.sub(dy, e.reduce("ReduceSum", e.mul(y, dy), {y.rank() - 1}))));
}

void convertLogSoftmaxGrad(Emission &e) {
  const Wire y = e.in("prob"), dy = e.in("dy");
  e.out(e.sub(dy, e.mul(e.unary("Exp", y), e.reduce("ReduceSum", dy, {y.rank() - 1}))));
}

} // namespace

void addNormalizations(EmitterTable *t) {
  const char *written = "ReduceMean, Sub, Mul, Sqrt, Reciprocal";
  t->add("layer_norm", Types::kWide, convertLayerNorm, "LayerNormalization");
  t->add("layer_norm_grad", Types::kWide, convertLayerNormGrad, "Sub, Mul, ReduceMean");
  t->add("layer_norm_param_grad", Types::kWide, convertLayerNormParamGrad, "Sub, Mul, ReduceSum");
  t->add("rms_norm", Types::kWide, convertRmsNorm, written);
  t->add("rms_norm_grad", Types::kWide, convertRmsNormGrad, "Sub, Mul, ReduceMean");
  t->add("rms_norm_param_grad", Types::kWide, convertRmsNormParamGrad, "Mul, ReduceSum");
  t->add("group_norm", Types::kWide, convertGroupNorm, written);
  t->add("group_norm_grad", Types::kWide, convertGroupNormGrad, "Sub, Mul, ReduceMean");
  t->add("group_norm_param_grad", Types::kWide, convertGroupNormParamGrad, "Sub, Mul, ReduceSum");
  t->add("normalization", Types::kWide, convertNormalization, "BatchNormalization; in training its formula",
         "moving statistics become outputs NAME.next");
  t->add("normalization_grad", Types::kWide, convertNormalizationGrad, "Sub, Mul, ReduceMean, ReduceSum");
  t->add("l2_normalize", Types::kWide, convertL2, "Mul, ReduceSum, Max, Sqrt, Div");
  t->add("l2_normalize_grad", Types::kWide, convertL2Grad, "Mul, ReduceSum, Where, Sub, Max, Sqrt, Div");
  t->add("softmax", Types::kNumbers, [](Emission &e) { convertSoftmax(e, "Softmax"); }, "Softmax");
  t->add("log_softmax", Types::kNumbers, [](Emission &e) { convertSoftmax(e, "LogSoftmax"); }, "LogSoftmax");
  t->add("softmax_grad", Types::kWide, convertSoftmaxGrad, "Mul, ReduceSum, Sub");
  t->add("log_softmax_grad", Types::kWide, convertLogSoftmaxGrad, "Exp, ReduceSum, Mul, Sub");
}

} // namespace opc::onnx_export
