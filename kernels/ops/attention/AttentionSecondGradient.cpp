// Gradient rule of scaled_dot_product_attention_grad: second derivatives of attention, with whole matrices of scores.
// SPDX-License-Identifier: Apache-2.0
#include "attention/AttentionShape.h"
#include "support/GradientSteps.h"

#include <cmath>
#include <map>

namespace opc::ops {
namespace {

/// The tensors of the op in the type of its scores, and the steps that the rule is made of.
struct Steps {
  explicit Steps(GradientRule &rule)
      : g(rule), given(rule.desc("query").data_type()), rank(rule.shape("query").NumAxes()) {
    scale = g.attr<double>("scale");
    const int64_t d = g.shape("query").At(rank - 1);
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, d)));
  }
  std::string cast(const std::string &a, DataType from, DataType to, const std::string &suffix) const {
    return from == to ? a : g.add("cast", suffix).in("in", a).attr("dtype", to).out();
  }
  /// An input, cast once.
  std::string x(const char *arg) {
    std::string &a = wide[arg];
    if (a.empty()) a = cast(g.x(arg), g.desc(arg).data_type(), scoreType(given), std::string(arg) + "_wide");
    return a;
  }
  /// The gradient that arrived at an output, or nothing.
  std::string dy(const char *arg) const {
    return g.hasOutput(arg) && g.hasDy(arg) ? cast(g.dy(arg), given, scoreType(given), std::string(arg) + "_dy") : "";
  }
  std::string product(const std::string &a, bool transA, const std::string &b, bool transB, double by,
                      const std::string &suffix) const {
    return g.add(rank == 2 ? "matmul" : "batch_matmul", suffix)
        .in("a", a)
        .in("b", b)
        .attr("transpose_a", transA)
        .attr("transpose_b", transB)
        .attr("alpha", by)
        .out();
  }
  /// The sum of those that are there, or nothing.
  std::string sum(const std::vector<std::string> &terms, const std::string &suffix) const {
    std::vector<std::string> present;
    for (const std::string &t : terms)
      if (!t.empty()) present.push_back(t);
    if (present.size() < 2) return present.empty() ? "" : present[0];
    auto op = g.add("add_n", suffix);
    for (const std::string &t : present) op.in("in", t);
    return op.out();
  }
  std::string rowSum(const std::string &a, const std::string &suffix) const {
    return summed(g, a, {static_cast<int32_t>(rank - 1)}, true, suffix);
  }
  /// A number for each query, as a column; and back.
  std::string column(const std::string &a, const std::string &suffix) const {
    const Shape &rows = g.shape("log_sum");
    return reshaped(g, a, rows, columnShape(), suffix);
  }
  std::string uncolumn(const std::string &a, const std::string &suffix) const {
    return reshaped(g, a, columnShape(), g.shape("log_sum"), suffix);
  }
  Shape columnShape() const {
    Shape s = g.shape("query");
    s.Set(rank - 1, 1);
    return s;
  }
  void bind(const char *arg, const std::string &a) const {
    if (!a.empty()) g.bind(arg, cast(a, scoreType(given), g.desc(arg).data_type(), std::string(arg) + "_narrow"));
  }
  GradientRule &g;
  DataType given;
  int64_t rank;
  double scale;
  std::map<std::string, std::string> wide;
};

/// What a hidden score is: its exponential is 0, and so are its products with anything finite.
constexpr double kHidden = -1e30;

/// exp(scale query key^T + mask - log_sum), 0 where the query does not see the key.
std::string probabilities(Steps &s) {
  GradientRule &g = s.g;
  std::string scores = s.product(s.x("query"), false, s.x("key"), true, s.scale, "scores");
  if (g.hasInput("mask")) {
    if (g.desc("mask").data_type() == kBool) {
      const std::string hidden = g.add("constant", "hidden")
                                     .attr("shape", Shape{})
                                     .attr("dtype", scoreType(s.given))
                                     .attr("is_floating_value", true)
                                     .attr("floating_value", kHidden)
                                     .out();
      scores = g.add("where", "seen").in("condition", g.x("mask")).in("x", scores).in("y", hidden).out();
    } else {
      scores = binary(g, "broadcast_add", scores, s.x("mask"), "masked");
    }
  }
  if (g.attr<bool>("causal"))
    scores = g.add("tril", "causal")
                 .in("in", scores)
                 .attr("diagonal", int64_t{0})
                 .attr("is_floating_fill_value", true)
                 .attr("floating_fill_value", kHidden)
                 .out();
  // A query that sees nothing has minus infinity; its scores, all hidden, need no normalisation.
  const std::string none = g.add("isinf", "sees_none").in("in", g.x("log_sum")).out();
  const std::string sums = g.add("masked_fill", "sums")
                               .in("x", g.x("log_sum"))
                               .in("mask", none)
                               .attr("has_float_operand", true)
                               .attr("float_operand", 0.0)
                               .out();
  return unary(g, "exp", binary(g, "broadcast_sub", scores, s.column(sums, "sums_column"), "shifted"), "probabilities");
}

/// With P the probabilities, D = dout value^T - sum(dout * out) + dlog_sum and S = P * D: dvalue = P^T dout, dquery =
/// scale S key, dkey = scale S^T query, dscores = S. Of these gradients a, b, c and e arrive for query, key, value and
/// scores; then G, by S, is scale (a key^T + query b^T) + e, by D it is G * P, and by the scores (G * D + dout c^T) *
/// P.
void attentionGradGradient(GradientRule &g) {
  Steps s(g);
  const std::string a = s.dy("dquery"), b = s.dy("dkey"), c = s.dy("dvalue"), e = s.dy("dscores");
  const std::string q = s.x("query"), k = s.x("key"), v = s.x("value"), dout = s.x("dout"), out = s.x("out");
  const std::string p = probabilities(s);
  const std::string products = s.product(dout, false, v, true, 1, "products");
  const std::string along = s.rowSum(g.multiply(dout, out, "along_product"), "along");
  std::string slope = binary(g, "broadcast_sub", products, along, "slope");
  if (g.hasInput("dlog_sum"))
    slope = binary(g, "broadcast_add", slope, s.column(g.x("dlog_sum"), "dlog_sum_column"), "slope_all");
  const std::string byS = s.sum({a.empty() ? "" : s.product(a, false, k, true, s.scale, "by_query"),
                                 b.empty() ? "" : s.product(q, false, b, true, s.scale, "by_key"), e},
                                "by_s");
  const std::string byD = byS.empty() ? "" : g.multiply(byS, p, "by_d");
  const std::string byP = s.sum({byS.empty() ? "" : g.multiply(byS, slope, "by_p_slope"),
                                 c.empty() ? "" : s.product(dout, false, c, true, 1, "by_value")},
                                "by_p");
  if (byP.empty()) return;
  const std::string byScores = g.multiply(byP, p, "by_scores");
  const std::string share = a.empty() && b.empty() ? "" : g.multiply(p, slope, "share");

  if (g.needs("query"))
    s.bind("query", s.sum({s.product(byScores, false, k, false, s.scale, "query_scores"),
                           b.empty() ? "" : s.product(share, false, b, false, s.scale, "query_share")},
                          "query"));
  if (g.needs("key"))
    s.bind("key", s.sum({s.product(byScores, true, q, false, s.scale, "key_scores"),
                         a.empty() ? "" : s.product(share, true, a, false, s.scale, "key_share")},
                        "key"));
  if (g.needs("log_sum"))
    g.bind("log_sum", s.uncolumn(unary(g, "negative", s.rowSum(byScores, "scores_sum"), "log_sum_column"), "log_sum"));
  if (g.needs("mask")) {
    Shape scores = g.shape("query");
    scores.Set(s.rank - 1, g.shape("key").At(s.rank - 2));
    s.bind("mask", g.reduceLike(byScores, scores, s.x("mask"), g.shape("mask"), "mask"));
  }
  std::string rest;
  if (!byD.empty()) {
    const std::string sum = s.rowSum(byD, "d_sum");
    rest = unary(g, "negative", sum, "d_rest");
    if (g.needs("value")) s.bind("value", s.product(byD, true, dout, false, 1, "value"));
    if (g.needs("out")) s.bind("out", binary(g, "broadcast_mul", rest, dout, "out"));
    if (g.hasInput("dlog_sum") && g.needs("dlog_sum")) g.bind("dlog_sum", s.uncolumn(sum, "dlog_sum"));
  }
  if (g.needs("dout"))
    s.bind("dout", s.sum({byD.empty() ? "" : s.product(byD, false, v, false, 1, "dout_value"),
                          c.empty() ? "" : s.product(p, false, c, false, 1, "dout_probabilities"),
                          rest.empty() ? "" : binary(g, "broadcast_mul", rest, out, "dout_rest")},
                         "dout"));
}
REGISTER_USER_OP_GRAD("scaled_dot_product_attention_grad").SetBackwardOpConfGenFn(gradientRule(attentionGradGradient));

} // namespace
} // namespace opc::ops
