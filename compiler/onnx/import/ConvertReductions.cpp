// ONNX's reductions.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxBounds.h"
#include "OnnxConverters.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace opc::onnx {

Term extreme(const Conversion &c, DataType type, bool isLargest) {
  const double inf = std::numeric_limits<double>::infinity();
  if (IsFloatingDataType(type)) return c.scalar(type, isLargest ? inf : -inf);
  if (type == kInt64) return c.constant({isLargest ? INT64_MAX : INT64_MIN}, Shape());
  if (type == kUInt64) return c.constant({isLargest ? -1 : 0}, Shape(), type);
  return c.scalar(type, isLargest ? elementType(type).highest : elementType(type).lowest);
}

Term reduced(Conversion &c, const char *op, const Term &x, const std::vector<int64_t> &axes, bool keepDims) {
  DimVector dims;
  int64_t count = 1;
  for (int64_t k = 0; k < x->rank(); ++k) {
    const bool isGone = std::find(axes.begin(), axes.end(), k) != axes.end();
    if (isGone) count *= x->dim(k);
    if (!isGone || keepDims) dims.push_back(isGone ? 1 : x->dim(k));
  }
  if (x->rank() == 0 || axes.empty()) return x; // each of these ops, of one number
  if (count == 0) {                             // of nothing
    const std::string name = op;
    const Term nothing = name == "reduce_max" || name == "logsumexp"     ? extreme(c, x->type(), false)
                         : name == "reduce_min"                          ? extreme(c, x->type(), true)
                         : name == "reduce_prod" || name == "reduce_all" ? c.scalar(x->type(), 1)
                                                                         : c.scalar(x->type(), 0);
    return c.expand(nothing, Shape(dims));
  }
  return c.op(op, {x}, {{"axis", axes}, {"keepdims", keepDims}});
}

namespace {

using Step = std::function<Term(Conversion &, const Term &)>;

void reduction(ConverterTable *t, const std::string &name, int64_t axesInput, const char *op, const std::string &to,
               const Step &before = {}, const Step &after = {}) {
  t->add(
      name,
      [=](Conversion &c) {
        Term x = c.in(0);
        auto axes = c.axes("axes", axesInput, 1);
        const bool isNone = !axes || axes->empty();
        if (isNone && c.flag("noop_with_empty_axes", false)) {
          Term same = before ? before(c, x) : x;
          if (after) same = after(c, same);
          return c.out(same == x ? c.op("identity", {x}) : c.cast(same, x->type()));
        }
        if (isNone) {
          axes.emplace(static_cast<size_t>(x->rank()));
          std::iota(axes->begin(), axes->end(), 0);
        }
        const auto over = c.axesOf(*axes, x->rank());
        const bool keepDims = c.flag("keepdims", true);
        const DataType type = x->type();
        std::string how = op;
        if (type == kBool) how = how == "reduce_max" ? "reduce_any" : how == "reduce_min" ? "reduce_all" : how;
        if (before) x = before(c, x);
        if (how == "reduce_mean" && !x->isFloating()) x = c.cast(x, kDouble);
        Term y = reduced(c, how.c_str(), x, over, keepDims);
        if (after) y = after(c, y);
        c.out(c.cast(y, type));
      },
      to);
}

Term apply(const char *op, Conversion &c, const Term &x) {
  if (x->isFloating()) return c.op(op, {x});
  return c.op(op, {c.cast(x, kDouble)});
}

} // namespace

void addReductions(ConverterTable *t) {
  const Step abs = [](Conversion &c, const Term &x) { return c.op("abs", {x}); };
  const Step square = [](Conversion &c, const Term &x) { return c.op("square", {x}); };
  const Step root = [](Conversion &c, const Term &x) { return apply("sqrt", c, x); };
  // Where all elements are 0 the norm's gradient is 0, as PyTorch's, and not the root's infinity times 0.
  const Step norm = [root](Conversion &c, const Term &x) {
    if (!x->isFloating()) return root(c, x);
    const Term isNone = c.op("broadcast_equal", {x, c.scalar(x->type(), 0)});
    const Term some = c.op("where", {isNone, c.scalar(x->type(), 1), x});
    return c.op("where", {isNone, c.scalar(x->type(), 0), root(c, some)});
  };
  const Step log = [](Conversion &c, const Term &x) { return apply("log", c, x); };
  const Step real = [](Conversion &c, const Term &x) { return x->isFloating() ? x : c.cast(x, kDouble); };
  reduction(t, "ReduceSum", 13, "reduce_sum", "reduce_sum");
  reduction(t, "ReduceMean", 18, "reduce_mean", "reduce_mean");
  reduction(t, "ReduceProd", 18, "reduce_prod", "reduce_prod");
  reduction(t, "ReduceMax", 18, "reduce_max", "reduce_max, reduce_any");
  reduction(t, "ReduceMin", 18, "reduce_min", "reduce_min, reduce_all");
  reduction(t, "ReduceL1", 18, "reduce_sum", "abs, reduce_sum", abs);
  reduction(t, "ReduceL2", 18, "reduce_sum", "square, reduce_sum, sqrt, where", square, norm);
  reduction(t, "ReduceSumSquare", 18, "reduce_sum", "square, reduce_sum", square);
  reduction(t, "ReduceLogSum", 18, "reduce_sum", "reduce_sum, log", {}, log);
  reduction(t, "ReduceLogSumExp", 18, "logsumexp", "logsumexp", real);
}

} // namespace opc::onnx
