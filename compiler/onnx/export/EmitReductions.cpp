// Reductions, scans and searches along axes as ONNX.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmitters.h"

#include <algorithm>
#include <numeric>

namespace opc::onnx_export {
namespace {

std::vector<int64_t> axesOf(Emission &e, const char *attr, int64_t rank) {
  std::vector<int64_t> axes = e.ints(attr);
  for (int64_t &a : axes) a += a < 0 ? rank : 0;
  return axes;
}

std::vector<int64_t> allAxes(const Wire &x) {
  std::vector<int64_t> axes(static_cast<size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

/// The result has the output's shape, with or without ones for the axes.
void reduced(Emission &e, const std::string &type, const Wire &x) {
  e.out(e.reshape(e.reduce(type, x, axesOf(e, "axis", x.rank())), e.madeFirst().shape()));
}

void reduction(EmitterTable *t, const std::string &op, const std::string &type) {
  t->add(
      op, Types::kWide,
      [type](Emission &e) {
        const Wire x = e.in("input_tensor");
        const std::vector<int64_t> axes = axesOf(e, "axis", x.rank());
        e.out(e.reduce(type, x, axes, e.b("keepdims")));
      },
      type);
}

/// 1 for all that is not 0.
Wire truth(Emission &e, const Wire &x) { return e.cast(x.type == kBool ? x : e.cast(x, kBool), kInt32); }

Wire notFinite(Emission &e, const Wire &x) {
  return e.test("Or", e.node("IsNaN", {x}, {}, kBool, x.shape), e.node("IsInf", {x}, {}, kBool, x.shape));
}

void convertNanSum(Emission &e) {
  const Wire x = e.in("input_tensor");
  reduced(e, "ReduceSum", e.select(e.node("IsNaN", {x}, {}, kBool, x.shape), e.number(x, 0), x));
}

void convertSquareSum(Emission &e) {
  Wire sum;
  for (int32_t k = 0; k < e.count("x"); ++k) {
    const Wire x = e.in("x", k), one = e.reduce("ReduceSum", e.mul(x, x), allAxes(x), false);
    sum = k ? e.add(sum, one) : one;
  }
  e.out(e.reshape(sum, e.madeFirst().shape()));
}

void convertNotFinite(Emission &e) {
  const Wire x = e.in("x");
  e.out(e.reshape(e.reduce("ReduceSum", e.cast(notFinite(e, x), kInt64), allAxes(x), false), e.madeFirst().shape()));
}

void convertVariance(Emission &e) {
  const Wire x = e.in("input");
  std::vector<int64_t> axes = axesOf(e, "dim", x.rank());
  if (axes.empty()) axes = allAxes(x);
  double count = e.b("unbiased") ? -1 : 0;
  int64_t elements = 1;
  for (const int64_t a : axes) elements *= x.dim(a);
  count += static_cast<double>(elements);
  const Wire apart = e.sub(x, e.reduce("ReduceMean", x, axes));
  const Wire sum = e.reduce("ReduceSum", e.mul(apart, apart), axes);
  e.out(e.reshape(e.div(sum, e.number(sum, count)), e.madeFirst().shape()));
}

/// The reduced axes last and as one.
Wire reducedLast(Emission &e, const Wire &x, const std::vector<int64_t> &axes, std::vector<int64_t> *perm) {
  int64_t count = 1;
  for (int64_t k = 0; k < x.rank(); ++k)
    if (std::find(axes.begin(), axes.end(), k) == axes.end()) perm->push_back(k);
  for (const int64_t a : axes) perm->push_back(a), count *= x.dim(a);
  return e.reshape(e.transpose(x, *perm), {count ? x.shape.elem_cnt() / count : 0, count});
}

/// dy times the product of all others: [m, i, j] has 1 for i = j.
void convertProductGrad(Emission &e) {
  const Wire x = e.in("x"), dy = e.in("dy");
  std::vector<int64_t> axes = axesOf(e, "axis", x.rank()), perm;
  std::sort(axes.begin(), axes.end());
  const Wire flat = reducedLast(e, x, axes, &perm);
  const int64_t rows = flat.dim(0), n = flat.dim(1);
  std::vector<double> same(static_cast<size_t>(n * n), 0);
  for (int64_t k = 0; k < n; ++k) same[static_cast<size_t>(k * n + k)] = 1;
  const Wire others =
      e.select(e.constant(kBool, Shape({1, n, n}), same), e.number(x, 1), e.reshape(flat, {rows, 1, n}));
  const Wire product = e.mul(e.reshape(dy, {rows, 1}), e.reduce("ReduceProd", others, {2}, false));
  std::vector<int64_t> moved, back(perm.size());
  for (size_t k = 0; k < perm.size(); ++k)
    moved.push_back(x.dim(perm[k])), back[static_cast<size_t>(perm[k])] = static_cast<int64_t>(k);
  e.out(e.transpose(e.reshape(product, moved), back));
}

void convertSumLike(Emission &e) {
  const Wire x = e.in("x");
  e.out(e.reshape(e.reduce("ReduceSum", x, axesOf(e, "axis", x.rank())), e.madeFirst().shape()));
}

void convertArgument(Emission &e, const char *type) {
  const Wire x = e.in("in");
  e.out(e.node(type, {x}, {{"axis", -1}, {"keepdims", 0}}, kInt64, e.madeFirst().shape()));
}

std::vector<Wire> topOf(Emission &e, const Wire &x, int64_t count, bool largest) {
  Shape shape = x.shape;
  shape.Set(x.rank() - 1, count);
  return e.nodes("TopK", {x, e.integers({count})}, {{"axis", -1}, {"largest", largest ? 1 : 0}},
                 {{x.type, shape}, {kInt64, shape}});
}

void convertSort(Emission &e, size_t output) {
  const Wire x = e.in("in");
  e.out(topOf(e, x, x.dim(-1), e.s("direction") == "DESCENDING")[output]);
}

// Scans: all prefixes in log2(n) steps, each of which joins those of half the length.

Wire flipped(Emission &e, const Wire &x, int64_t axis) {
  return e.node("Slice", {x, e.integers({-1}), e.integers({INT64_MIN}), e.integers({axis}), e.integers({-1})}, {},
                x.type, x.shape);
}

/// x moved on by `by` along the axis, with `filling` before.
Wire shifted(Emission &e, const Wire &x, int64_t axis, int64_t by, double filling) {
  Shape first = x.shape;
  first.Set(axis, by);
  return e.concat({e.filled(x.type, first, filling), e.slice(x, axis, 0, x.dim(axis) - by)}, axis);
}

Wire products(Emission &e, Wire x, int64_t axis) {
  for (int64_t by = 1; by < x.dim(axis); by *= 2) x = e.mul(x, shifted(e, x, axis, by, 1));
  return x;
}

void convertCumSum(Emission &e) {
  const Wire x = e.in("x");
  const int64_t axis = e.i("dim") < 0 ? e.i("dim") + x.rank() : e.i("dim");
  e.out(e.node("CumSum", {x, e.integers({axis}, Shape())}, {}, x.type, x.shape));
}

void convertCumProd(Emission &e) {
  const Wire x = e.in("x");
  e.out(products(e, x, e.i("dim") < 0 ? e.i("dim") + x.rank() : e.i("dim")));
}

/// y[i] = a[i] y[i - 1] + b[i].
Wire scanned(Emission &e, Wire a, Wire b, int64_t axis) {
  for (int64_t by = 1; by < b.dim(axis); by *= 2) {
    b = e.add(b, e.mul(a, shifted(e, b, axis, by, 0)));
    a = e.mul(a, shifted(e, a, axis, by, 1));
  }
  return b;
}

/// dx[k] is y[k - 1] times the sum over i >= k of dy[i] x[k + 1] ... x[i].
void convertCumProdGrad(Emission &e) {
  const Wire x = e.in("input"), y = e.in("output");
  const int64_t axis = e.i("dim") < 0 ? e.i("dim") + x.rank() : e.i("dim");
  if (x.dim(axis) == 0) return e.out(e.in("dy"));
  const Wire sums = scanned(e, shifted(e, flipped(e, x, axis), axis, 1, 1), flipped(e, e.in("dy"), axis), axis);
  e.out(e.mul(shifted(e, y, axis, 1, 1), flipped(e, sums, axis)));
}

void convertLinearScan(Emission &e) {
  const Wire a = e.in("a"), b = e.in("b");
  const int64_t axis = e.i("dim") < 0 ? e.i("dim") + b.rank() : e.i("dim");
  if (!e.b("reverse")) return e.out(scanned(e, a, b, axis));
  if (b.dim(axis) == 0) return e.out(b);
  // y[i] = a[i + 1] y[i + 1] + b[i].
  e.out(flipped(e, scanned(e, shifted(e, flipped(e, a, axis), axis, 1, 1), flipped(e, b, axis), axis), axis));
}

} // namespace

void addReductions(EmitterTable *t) {
  reduction(t, "reduce_sum", "ReduceSum");
  reduction(t, "reduce_mean", "ReduceMean");
  reduction(t, "reduce_max", "ReduceMax");
  reduction(t, "reduce_min", "ReduceMin");
  reduction(t, "reduce_prod", "ReduceProd");
  reduction(t, "logsumexp", "ReduceLogSumExp");
  t->add(
      "reduce_any", Types::kOwn, [](Emission &e) { reduced(e, "ReduceMax", truth(e, e.in("input_tensor"))); },
      "Cast, ReduceMax");
  t->add(
      "reduce_all", Types::kOwn, [](Emission &e) { reduced(e, "ReduceMin", truth(e, e.in("input_tensor"))); },
      "Cast, ReduceMin");
  t->add("reduce_nansum", Types::kWide, convertNanSum, "IsNaN, Where, ReduceSum");
  t->add("square_sum", Types::kWide, convertSquareSum, "Mul, ReduceSum");
  t->add("multi_square_sum", Types::kWide, convertSquareSum, "Mul, ReduceSum, Add");
  t->add("count_not_finite", Types::kWide, convertNotFinite, "IsNaN, IsInf, Or, ReduceSum");
  t->add("var", Types::kWide, convertVariance, "ReduceMean, Sub, Mul, ReduceSum, Div");
  t->add("reduce_prod_grad", Types::kWide, convertProductGrad, "Where, ReduceProd, Mul");
  t->add("reduce_sum_like", Types::kWide, convertSumLike, "ReduceSum");
  t->add("argmax", Types::kWide, [](Emission &e) { convertArgument(e, "ArgMax"); }, "ArgMax");
  t->add("argmin", Types::kWide, [](Emission &e) { convertArgument(e, "ArgMin"); }, "ArgMin");
  t->add(
      "top_k", Types::kWide,
      [](Emission &e) {
        e.out(topOf(e, e.in("in"), e.madeFirst().shape().At(e.madeFirst().shape().NumAxes() - 1), true)[1]);
      },
      "TopK");
  t->add("sort", Types::kWide, [](Emission &e) { convertSort(e, 0); }, "TopK", "NaN has another place");
  t->add("arg_sort", Types::kWide, [](Emission &e) { convertSort(e, 1); }, "TopK", "NaN has another place");
}

void addScans(EmitterTable *t) {
  t->add("cumsum", Types::kWide, convertCumSum, "CumSum");
  t->add("cumprod", Types::kWide, convertCumProd, "Slice, Concat, Mul");
  t->add("cumprod_grad", Types::kWide, convertCumProdGrad, "Slice, Concat, Mul, Add");
  t->add("linear_scan", Types::kWide, convertLinearScan, "Slice, Concat, Mul, Add");
}

} // namespace opc::onnx_export
