// Gradient rule of scaled_dot_product_attention_grad: second derivatives of attention, with whole matrices of scores.
// SPDX-License-Identifier: Apache-2.0
#include "attention/AttentionShape.h"
#include "support/GradientSteps.h"

#include <cmath>
#include <map>

namespace opc::ops {
namespace {

/// What a hidden score is: its exponential is 0, and so are its products with anything finite.
constexpr double kHidden = -1e30;

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
  /// Keys or values, or what arrived for their gradients, for each head of queries: heads that share one get it each.
  std::string perHead(const std::string &a, const char *arg, const std::string &suffix) const {
    const Shape have = g.shape(arg), want = sharedShape(have, 1);
    if (a.empty() || perKey() == 1) return a;
    const Shape each = sharedShape(have, 2);
    const std::string column = reshaped(g, a, have, sharedShape(have, 0), suffix + "_column");
    const std::string many = g.add("expand", suffix + "_each").in("in", column).attr("expand_shape", each).out();
    return reshaped(g, many, each, want, suffix + "_heads");
  }
  /// The inverse: sums over the heads that share one.
  std::string ofShared(const std::string &a, const char *arg) const {
    const Shape have = g.shape(arg);
    if (a.empty() || perKey() == 1) return a;
    const std::string suffix = std::string(arg) + "_shared";
    const std::string each = reshaped(g, a, sharedShape(have, 1), sharedShape(have, 2), suffix);
    return summed(g, each, {static_cast<int32_t>(rank - 2)}, false, suffix + "_sum");
  }
  int64_t perKey() const {
    if (rank == 2 || g.shape("key").At(rank - 3) == 0) return 1;
    return g.shape("query").At(rank - 3) / g.shape("key").At(rank - 3);
  }
  /// [..., heads, rows, width] with the shared heads as an axis of size 1 (0), repeated (1), or that axis repeated (2).
  Shape sharedShape(const Shape &have, int form) const {
    DimVector dims(have.begin(), have.end());
    if (perKey() == 1) return have;
    if (form == 1)
      dims[dims.size() - 3] *= perKey();
    else
      dims.insert(dims.end() - 2, form == 0 ? 1 : perKey());
    return Shape(dims);
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
  std::string number(double value, const std::string &suffix) const {
    return g.add("constant", suffix)
        .attr("shape", Shape{})
        .attr("dtype", scoreType(given))
        .attr("is_floating_value", true)
        .attr("floating_value", value)
        .out();
  }
  std::string hiddenScore(const std::string &suffix) const { return number(kHidden, suffix); }
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

/// Scores with all that the query does not see by its place hidden.
class PlaceEdges {
public:
  PlaceEdges(Steps &steps, std::string scores) : s_(steps), g_(steps.g), scores_(std::move(scores)) {}
  std::string hidden() {
    const int64_t left = g_.attr<int64_t>("window_left"),
                  right = g_.attr<bool>("causal") ? 0 : g_.attr<int64_t>("window_right");
    if (g_.hasInput("key_lengths")) {
      DimVector column(g_.shape("key_lengths").begin(), g_.shape("key_lengths").end());
      column.insert(column.end(), {1, 1, 1});
      const std::string wide = g_.add("cast", "lengths_wide").in("in", g_.x("key_lengths")).attr("dtype", kInt64).out();
      const std::string ends = reshaped(g_, wide, g_.shape("key_lengths"), Shape(column), "lengths_column");
      keep(binary(g_, "broadcast_less", count(s_.g.shape("key").At(s_.rank - 2), "keys"), ends, "in_length"), "length");
      origin_ = binary(g_, "broadcast_sub", ends, number(g_.shape("query").At(s_.rank - 2), "queries"), "origin");
    } else if (left >= 0 || right >= 0) {
      const int64_t given = g_.attr<int64_t>("offset");
      origin_ =
          number(given >= 0 ? given : g_.shape("key").At(s_.rank - 2) - g_.shape("query").At(s_.rank - 2), "origin");
    }
    if (right >= 0) keep(binary(g_, "broadcast_less_equal", ahead(), shifted(right, "behind"), "not_behind"), "behind");
    if (left >= 0)
      keep(binary(g_, "broadcast_greater_equal", ahead(), shifted(-left, "before"), "not_before"), "before");
    return scores_;
  }

private:
  std::string count(int64_t n, const std::string &suffix) const {
    return g_.add("arange", suffix).attr("dtype", kInt64).attr("integer_limit", n).out();
  }
  std::string number(int64_t n, const std::string &suffix) const {
    return g_.add("constant", suffix)
        .attr("shape", Shape{})
        .attr("dtype", kInt64)
        .attr("is_floating_value", false)
        .attr("integer_value", n)
        .out();
  }
  std::string shifted(int64_t by, const std::string &suffix) const {
    return binary(g_, "broadcast_add", origin_, number(by, suffix + "_keys"), suffix + "_edge");
  }
  /// [n, m]: how far a key is from the place that a query would have without an origin.
  std::string ahead() {
    if (!ahead_.empty()) return ahead_;
    const int64_t n = g_.shape("query").At(s_.rank - 2), m = g_.shape("key").At(s_.rank - 2);
    const std::string rows = reshaped(g_, count(n, "query_count"), Shape({n}), Shape({n, 1}), "query_column");
    return ahead_ = binary(g_, "broadcast_sub", count(m, "key_count"), rows, "ahead");
  }
  void keep(const std::string &condition, const std::string &suffix) {
    scores_ = g_.add("where", suffix)
                  .in("condition", condition)
                  .in("x", scores_)
                  .in("y", s_.hiddenScore(suffix + "_hidden"))
                  .out();
  }
  Steps &s_;
  GradientRule &g_;
  std::string scores_, origin_, ahead_;
};

struct Probabilities {
  std::string p;
  std::string slope, bend; // of a cap: its derivative, and the second one; empty without
};

/// exp(scale query key^T + mask - log_sum), 0 where the query does not see the key.
Probabilities probabilities(Steps &s) {
  GradientRule &g = s.g;
  Probabilities made;
  std::string scores =
      s.product(s.x("query"), false, s.perHead(s.x("key"), "key", "scores_key"), true, s.scale, "scores");
  if (const double cap = g.attr<double>("softcap"); cap > 0) {
    // With t = tanh(score / cap): cap t, its derivative 1 - t^2, and of that -2 t (1 - t^2) / cap.
    const std::string t = unary(g, "tanh", g.scale(scores, 1 / cap, "in_cap"), "cap_tanh");
    scores = g.scale(t, cap, "capped");
    const std::string square = g.multiply(t, t, "cap_square");
    made.slope = binary(g, "broadcast_sub", s.number(1, "one"), square, "cap_slope");
    made.bend = g.multiply(g.scale(t, -2 / cap, "cap_bend_tanh"), made.slope, "cap_bend");
  }
  if (g.hasInput("mask")) {
    if (g.desc("mask").data_type() == kBool)
      scores =
          g.add("where", "seen").in("condition", g.x("mask")).in("x", scores).in("y", s.hiddenScore("hidden")).out();
    else
      scores = binary(g, "broadcast_add", scores, s.x("mask"), "masked");
  }
  scores = PlaceEdges(s, scores).hidden();
  // A query that sees nothing has minus infinity; its scores, all hidden, need no normalisation.
  const std::string none = g.add("isinf", "sees_none").in("in", g.x("log_sum")).out();
  const std::string sums = g.add("masked_fill", "sums")
                               .in("x", g.x("log_sum"))
                               .in("mask", none)
                               .attr("has_float_operand", true)
                               .attr("float_operand", 0.0)
                               .out();
  made.p =
      unary(g, "exp", binary(g, "broadcast_sub", scores, s.column(sums, "sums_column"), "shifted"), "probabilities");
  return made;
}

/// With P the probabilities, D = dout value^T - sum(dout * out) + dlog_sum and S = P * D: dvalue = P^T dout, dquery =
/// scale S key, dkey = scale S^T query, dscores = S. Of these gradients a, b, c and e arrive for query, key, value and
/// scores; then G, by S, is B + e with B = scale (a key^T + query b^T), by D it is G * P, and by the masked scores
/// (G * D + dout c^T) * P. Under a cap with the derivative C, S in dquery and dkey is S * C: then B in G is B * C, and
/// by the scores before the cap it is C times that by the masked ones, and B * S * C'.
void attentionGradGradient(GradientRule &g) {
  Steps s(g);
  const std::string a = s.dy("dquery"), b = s.perHead(s.dy("dkey"), "key", "dkey"),
                    c = s.perHead(s.dy("dvalue"), "value", "dvalue"), e = s.dy("dscores");
  const std::string q = s.x("query"), k = s.perHead(s.x("key"), "key", "key"),
                    v = s.perHead(s.x("value"), "value", "value"), dout = s.x("dout"), out = s.x("out");
  const auto [p, capSlope, capBend] = probabilities(s);
  const auto capped = [&, slopes = capSlope](const std::string &x, const char *suffix) {
    return x.empty() || slopes.empty() ? x : g.multiply(x, slopes, suffix);
  };
  const std::string products = s.product(dout, false, v, true, 1, "products");
  const std::string along = s.rowSum(g.multiply(dout, out, "along_product"), "along");
  std::string slope = binary(g, "broadcast_sub", products, along, "slope");
  if (g.hasInput("dlog_sum"))
    slope = binary(g, "broadcast_add", slope, s.column(g.x("dlog_sum"), "dlog_sum_column"), "slope_all");
  const std::string both = s.sum({a.empty() ? "" : s.product(a, false, k, true, s.scale, "by_query"),
                                  b.empty() ? "" : s.product(q, false, b, true, s.scale, "by_key")},
                                 "by_both");
  const std::string byS = s.sum({capped(both, "by_both_capped"), e}, "by_s");
  const std::string byD = byS.empty() ? "" : g.multiply(byS, p, "by_d");
  const std::string byP = s.sum({byS.empty() ? "" : g.multiply(byS, slope, "by_p_slope"),
                                 c.empty() ? "" : s.product(dout, false, c, true, 1, "by_value")},
                                "by_p");
  if (byP.empty()) return;
  const std::string byMasked = g.multiply(byP, p, "by_scores");
  const std::string share = both.empty() ? "" : g.multiply(p, slope, "share_plain");
  const std::string bent =
      both.empty() || capBend.empty() ? "" : g.multiply(g.multiply(both, share, "bent_share"), capBend, "bent");
  const std::string byScores = s.sum({capped(byMasked, "by_scores_capped"), bent}, "by_scores_all");
  const std::string sharing = capped(share, "share");

  if (g.needs("query"))
    s.bind("query", s.sum({s.product(byScores, false, k, false, s.scale, "query_scores"),
                           b.empty() ? "" : s.product(sharing, false, b, false, s.scale, "query_share")},
                          "query"));
  if (g.needs("key"))
    s.bind("key", s.ofShared(s.sum({s.product(byScores, true, q, false, s.scale, "key_scores"),
                                    a.empty() ? "" : s.product(sharing, true, a, false, s.scale, "key_share")},
                                   "key"),
                             "key"));
  if (g.needs("log_sum"))
    g.bind("log_sum", s.uncolumn(unary(g, "negative", s.rowSum(byMasked, "scores_sum"), "log_sum_column"), "log_sum"));
  if (g.needs("mask")) {
    Shape scores = g.shape("query");
    scores.Set(s.rank - 1, g.shape("key").At(s.rank - 2));
    s.bind("mask", g.reduceLike(byMasked, scores, s.x("mask"), g.shape("mask"), "mask"));
  }
  std::string rest;
  if (!byD.empty()) {
    const std::string sum = s.rowSum(byD, "d_sum");
    rest = unary(g, "negative", sum, "d_rest");
    if (g.needs("value")) s.bind("value", s.ofShared(s.product(byD, true, dout, false, 1, "value"), "value"));
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
