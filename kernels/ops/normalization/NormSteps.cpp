// What the gradient rules of the normalisations are made of.
// SPDX-License-Identifier: Apache-2.0
#include "normalization/NormSteps.h"

namespace opc::ops::norm {
namespace {

/// Composes backward ops over the view, in the statistics' element type; names them by a running number.
class NormSteps {
public:
  NormSteps(GradientRule &rule, NormView view) : g(rule), v(std::move(view)) {
    type_ = statisticsType(g.desc("x").data_type());
  }
  std::string in(const std::string &tensor, const TensorDesc &desc, const Shape &as) {
    return shaped(converted(tensor, desc.data_type(), type_), desc.shape(), as);
  }
  std::string input(const char *arg) { return in(g.x(arg), g.desc(arg), v.view); }
  /// A result of the view (or of `as`) as the gradient of an argument.
  std::string out(const std::string &a, const Shape &as, const TensorDesc &like) {
    return converted(shaped(a, as, like.shape()), type_, like.data_type());
  }
  std::string mul(const std::string &a, const std::string &b) { return binary(g, "broadcast_mul", a, b, name()); }
  std::string sub(const std::string &a, const std::string &b) { return binary(g, "broadcast_sub", a, b, name()); }
  std::string div(const std::string &a, const std::string &b) { return binary(g, "broadcast_div", a, b, name()); }
  std::string times(const std::string &a, double factor) { return g.scale(a, factor, name()); }
  std::string sum(const std::string &a) { return summed(g, a, v.axes, true, name()); }
  std::string mean(const std::string &a) { return times(sum(a), 1 / v.count()); }
  std::string expanded(const std::string &a) {
    return g.add("expand", name()).in("in", a).attr("expand_shape", v.view).out();
  }
  std::string total(const Strings &parts) {
    if (parts.size() == 1) return parts[0];
    auto add = g.add("add_n", name());
    for (const std::string &p : parts) add.in("in", p);
    return add.out();
  }
  /// Sums a tensor of the view to the parameters' shape.
  std::string toParameter(const std::string &a) {
    if (v.view == v.parameter) return a;
    Ints axes;
    const int64_t lead = v.view.NumAxes() - v.parameter.NumAxes();
    for (int64_t i = 0; i < v.view.NumAxes(); ++i)
      if (i < lead || (v.parameter.At(i - lead) == 1 && v.view.At(i) != 1)) axes.push_back(static_cast<int32_t>(i));
    const std::string sums = summed(g, a, axes, true, name());
    DimVector kept = v.view.dim_vec();
    for (int32_t i : axes) kept[static_cast<size_t>(i)] = 1;
    return shaped(sums, Shape(kept), v.parameter);
  }
  std::string centered() {
    if (centered_.empty()) centered_ = v.mean ? sub(input("x"), in(g.x(v.mean), g.desc(v.mean), v.stat)) : input("x");
    return centered_;
  }
  std::string inverse() {
    if (inverse_.empty()) inverse_ = in(g.x(v.inverse), g.desc(v.inverse), v.stat);
    return inverse_;
  }
  std::string hat() {
    if (hat_.empty()) hat_ = mul(centered(), inverse());
    return hat_;
  }
  /// For forward ops, whose statistics are outputs.
  void useOutputs() {
    inverse_ = in(g.y(v.inverse), g.desc(v.inverse), v.stat);
    if (v.mean) {
      const std::string mean = in(g.y(v.mean), g.desc(v.mean), v.stat);
      centered_ = sub(input("x"), mean);
    } else {
      centered_ = input("x");
    }
  }
  GradientRule &g;
  const NormView v;

private:
  std::string name() { return "n" + std::to_string(count_++); }
  std::string shaped(const std::string &a, const Shape &have, const Shape &want) {
    return have == want ? a : reshaped(g, a, have, want, name());
  }
  std::string converted(const std::string &a, DataType from, DataType to) {
    return from == to ? a : g.add("cast", name()).in("in", a).attr("dtype", to).out();
  }
  DataType type_;
  int count_ = 0;
  std::string centered_, inverse_, hat_;
};

} // namespace

GradientOp backwardOp(GradientRule &g, const char *type, const char *suffix, const std::string &dy,
                      const NormView &view) {
  auto grad = g.add(type, suffix);
  grad.in("dy", dy).in("x", g.x("x"));
  if (view.mean) grad.in(view.mean, g.y(view.mean));
  grad.in(view.inverse, g.y(view.inverse));
  return grad;
}

std::string fromStatistics(GradientRule &g, const NormView &view) {
  const bool mean = view.mean && g.hasOutput(view.mean) && g.hasDy(view.mean);
  const bool inverse = g.hasOutput(view.inverse) && g.hasDy(view.inverse);
  if (!mean && !inverse) return "";
  NormSteps s(g, view);
  Strings parts;
  if (mean) parts.push_back(s.expanded(s.times(s.in(g.dy(view.mean), g.desc(view.mean), view.stat), 1 / view.count())));
  if (inverse) {
    s.useOutputs();
    const std::string cube = s.mul(s.mul(s.inverse(), s.inverse()), s.inverse());
    const std::string slope =
        s.times(s.mul(s.in(g.dy(view.inverse), g.desc(view.inverse), view.stat), cube), -1 / view.count());
    parts.push_back(s.mul(s.centered(), slope));
  }
  return s.out(s.total(parts), view.view, g.desc("x"));
}

void bindX(GradientRule &g, const std::string &a, const std::string &b) {
  if (a.empty() && b.empty()) return;
  g.bind("x", a.empty() ? b : b.empty() ? a : g.add("add_n", "x_sum").in("in", a).in("in", b).out());
}

void bindX(GradientRule &g, const char *op, const std::string &dy, const NormView &view,
           std::initializer_list<const char *> attributes) {
  if (!g.needs("x")) return;
  std::string direct;
  if (!dy.empty()) {
    auto grad = backwardOp(g, op, "x", dy, view);
    if (g.hasInput(view.gamma)) grad.in(view.gamma, g.x(view.gamma));
    direct = grad.same(attributes).out("dx");
  }
  bindX(g, direct, fromStatistics(g, view));
}

void bindParameter(GradientRule &g, const char *arg, const std::string &a) {
  const DataType have = statisticsType(g.desc("x").data_type()), want = g.desc(arg).data_type();
  g.bind(arg, have == want ? a : g.add("cast", std::string(arg) + "_cast").in("in", a).attr("dtype", want).out());
}

void secondGradient(GradientRule &g, const NormView &view, GradOutputs outputs) {
  NormSteps s(g, view);
  const bool dx = outputs.dx && g.hasOutput(outputs.dx) && g.hasDy(outputs.dx),
             gammas = outputs.gamma && g.hasOutput(outputs.gamma) && g.hasDy(outputs.gamma),
             betas = outputs.beta && g.hasOutput(outputs.beta) && g.hasDy(outputs.beta);
  const bool gammaGiven = outputs.dx && g.hasInput(view.gamma);
  // normalization_grad without training: dx = gamma inverse dy.
  const bool constant = g.op().op_conf().attrs.count("training") && !g.attr<bool>("training");
  const bool needsDy = g.needs("dy"), needsX = g.needs("x"), needsGamma = gammaGiven && g.needs(view.gamma);
  const bool needsMean = view.mean && g.needs(view.mean), needsInverse = g.needs(view.inverse);
  Strings dyParts, xParts, inverseParts;
  std::string gammaPart;
  const std::string dy = s.input("dy");
  if (dx) {
    const std::string v = s.in(g.dy(outputs.dx), g.desc(outputs.dx), view.view);
    const std::string gamma = gammaGiven ? s.in(g.x(view.gamma), g.desc(view.gamma), view.parameter) : "";
    const std::string d = gammaGiven ? s.mul(dy, gamma) : dy;
    if (constant) {
      const std::string scaled = s.mul(v, s.inverse());
      if (needsDy) dyParts.push_back(s.mul(scaled, gamma));
      if (needsGamma) gammaPart = s.toParameter(s.mul(scaled, dy));
      if (needsInverse) inverseParts.push_back(s.sum(s.mul(v, d)));
    }
    const std::string m3 = constant ? "" : s.mean(s.mul(v, s.hat()));
    if (!constant && (needsDy || needsGamma)) {
      std::string p = s.sub(v, s.mul(s.hat(), m3));
      if (view.centered) p = s.sub(p, s.mean(v));
      p = s.mul(p, s.inverse());
      if (needsDy) dyParts.push_back(gammaGiven ? s.mul(p, gamma) : p);
      if (needsGamma) gammaPart = s.toParameter(s.mul(p, dy));
    }
    if (!constant && (needsX || needsMean || needsInverse)) {
      const std::string m2 = s.mean(s.mul(d, s.hat()));
      if (needsX || needsMean) {
        const std::string both = s.total({s.mul(v, m2), s.mul(d, m3)});
        xParts.push_back(s.times(s.mul(both, s.mul(s.inverse(), s.inverse())), -1));
      }
      if (needsInverse) {
        std::string made = s.in(g.y(outputs.dx), g.desc(outputs.dx), view.view);
        if (g.hasInput("_add_to_output")) made = s.sub(made, s.input("_add_to_output"));
        const std::string product = s.sum(s.mul(v, made));
        inverseParts.push_back(s.div(product, s.inverse()));
        inverseParts.push_back(s.times(s.mul(m2, m3), -2 * view.count()));
      }
    }
  }
  if (gammas) {
    const std::string u = s.in(g.dy(outputs.gamma), g.desc(outputs.gamma), view.parameter);
    if (needsDy) dyParts.push_back(s.mul(s.hat(), u));
    if (needsX || needsMean || needsInverse) {
      const std::string product = s.mul(dy, u);
      if (needsX || needsMean) xParts.push_back(s.mul(product, s.inverse()));
      if (needsInverse) inverseParts.push_back(s.sum(s.mul(product, s.centered())));
    }
  }
  if (betas && needsDy) dyParts.push_back(s.expanded(s.in(g.dy(outputs.beta), g.desc(outputs.beta), view.parameter)));
  if (!dyParts.empty()) g.bind("dy", s.out(s.total(dyParts), view.view, g.desc("dy")));
  if (!gammaPart.empty()) g.bind(view.gamma, s.out(gammaPart, view.parameter, g.desc(view.gamma)));
  if (!xParts.empty()) {
    const std::string all = s.total(xParts);
    if (needsX) g.bind("x", s.out(all, view.view, g.desc("x")));
    if (needsMean) g.bind(view.mean, s.out(s.times(s.sum(all), -1), view.stat, g.desc(view.mean)));
  }
  if (!inverseParts.empty()) g.bind(view.inverse, s.out(s.total(inverseParts), view.stat, g.desc(view.inverse)));
}

} // namespace opc::ops::norm
