// ONNX's ops that make tensors of nothing but sizes.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"
#include "OnnxLimits.h"
#include "OnnxTensorData.h"

#include <algorithm>
#include <cmath>

namespace opc::onnx {
namespace {

constexpr int64_t kMostMade = 1 << 26; // elements

Attrs filled(const Term &value, const Conversion &c, const Shape &shape) {
  Attrs attrs{{"dtype", value->type()}, {"shape", shape}, {"is_floating_value", value->isFloating()}};
  if (value->isFloating())
    attrs["floating_value"] = c.knownFloats(value, "value")[0];
  else
    attrs["integer_value"] = c.knownInts(value, "value")[0];
  return attrs;
}

void convertConstantOfShape(Conversion &c) {
  const auto dims = c.knownInts(0);
  for (int64_t d : dims)
    if (d < 0) c.invalid("a dimension of " + std::to_string(d));
  const Shape shape(dims);
  Term value = c.scalar(kFloat, 0);
  if (const Attribute *a = c.attr("value", Attribute::TENSOR)) {
    Result<StoredTensor> stored = tensorOf(a->t());
    if (!stored) throw Refusal{stored.status().id(), stored.status().message(), stored.status().help()};
    value = GraphDraft::constant(std::move(*stored));
    if (value->shape().elem_cnt() != 1)
      c.invalid("its value has " + std::to_string(value->shape().elem_cnt()) + " elements, and must have one");
  }
  c.out(c.op("constant", {}, filled(value, c, shape)));
}

/// `count` numbers, of whole ones in i64.
Term rangeFrom(const Conversion &c, DataType type, const Term &start, const Term &step, int64_t count) {
  const Shape shape({count});
  if (type == kInt64) {
    const int64_t first = start ? c.knownInts(start, "its start")[0] : 0, by = c.knownInts(step, "its step")[0];
    std::vector<int64_t> list(static_cast<size_t>(count));
    for (int64_t k = 0; k < count; ++k)
      list[static_cast<size_t>(k)] =
          static_cast<int64_t>(static_cast<uint64_t>(first) + static_cast<uint64_t>(k) * static_cast<uint64_t>(by));
    return c.constant(list, shape);
  }
  const double first = start ? c.knownFloats(start, "its start")[0] : 0, by = c.knownFloats(step, "its step")[0];
  std::vector<double> list(static_cast<size_t>(count));
  for (int64_t k = 0; k < count; ++k) list[static_cast<size_t>(k)] = first + static_cast<double>(k) * by;
  return c.constant(type, shape, list);
}

/// How many steps of `by` lead from `from` to `to`, where f64 does not have all numbers between.
double wholeSteps(int64_t from, int64_t to, int64_t by) {
  if (by > 0 ? to <= from : to >= from) return 0;
  const auto low = static_cast<uint64_t>(by > 0 ? from : to), high = static_cast<uint64_t>(by > 0 ? to : from);
  const auto size = by > 0 ? static_cast<uint64_t>(by) : uint64_t{0} - static_cast<uint64_t>(by);
  return static_cast<double>((high - low - 1) / size + 1);
}

/// How many steps of `by` lead from `from` to `to`, as i64[1].
Term stepsOfRun(Conversion &c, const Term &from, const Term &to, double by) {
  Term distance = by > 0 ? c.op("broadcast_sub", {c.op("broadcast_maximum", {to, from}), from})
                         : c.op("broadcast_sub", {from, c.op("broadcast_minimum", {to, from})});
  const DataType type = from->type();
  const Term size = c.constant(type, Shape({1}), {std::abs(by)});
  if (from->isFloating()) return c.cast(c.op("ceil", {c.op("broadcast_div", {distance, size})}), kInt64);
  if (std::abs(by) == 1) return distance;
  const Term rest = c.constant(type, Shape({1}), {std::abs(by) - 1});
  return c.op("broadcast_div", {c.op("broadcast_add", {distance, rest}), size});
}

/// The first `count` of them, as no constant: nobody may take the others for known.
void giveSome(Conversion &c, const Term &whole, const Term &count) {
  c.out(c.cut(c.op("bounded", {whole, count}, {{"axis", int64_t{0}}}), 0, count));
}

/// Of which only the run knows how many numbers it has: those of the longest range that there can be, and a count.
void rangeOfRun(Conversion &c, double by) {
  const Term start = c.in(0), end = c.in(1);
  const bool isPlain = by == 1 && start->value && c.knownFloat(0) == 0 && start->type() == kInt64;
  if (const Term count = isPlain ? countBehind(&c.draft, end) : nullptr) // with it goes what else is as long
    return giveSome(c, rangeFrom(c, kInt64, start, c.in(2), *c.draft.roomOf(count)), count);
  const auto distance = by > 0 ? mostBetween(&c.draft, end, start) : mostBetween(&c.draft, start, end);
  if (!distance) {
    const bool isEnd =
        !end->value && !std::isfinite(by > 0 ? intervalOf(&c.draft, end).most : -intervalOf(&c.draft, end).least);
    const std::string op = (by > 0) == isEnd ? "Min" : "Max";
    throw Undecided{isEnd ? end : start,
                    c.inputText(isEnd ? 1 : 0) + ", which nothing limits as " + op + " of it and a number would,"};
  }
  const double length = std::max(0.0, std::ceil(*distance / std::abs(by)));
  if (!(length <= static_cast<double>(kMostMade)))
    c.unsupported("a range of up to " + std::to_string(length) + " elements");
  const auto most = static_cast<int64_t>(length);
  const DataType type = start->type(), exact = start->isFloating() ? kDouble : kInt64;
  if (most == 0) return c.out(c.constant(type, Shape({0}), {}));
  if (exact == kInt64 && std::abs(by) > static_cast<double>(INT32_MAX))
    c.unsupported("a step of " + std::to_string(by) + " to a limit that only the run knows");
  const Term from = c.reshape(c.cast(start, exact), {1}), to = c.reshape(c.cast(end, exact), {1});
  const Term whole = start->value ? rangeFrom(c, exact, start, c.in(2), most)
                                  : c.op("broadcast_add", {rangeFrom(c, exact, nullptr, c.in(2), most), from});
  const Term longest = c.constant({most}, Shape({1}));
  const Term count = c.op("broadcast_minimum", {stepsOfRun(c, from, to, by), longest});
  giveSome(c, c.cast(whole, type), count);
}

void convertRange(Conversion &c) {
  const double by = c.knownFloat(2);
  bool isOpen = false;
  for (const size_t k : {0, 1}) {
    const bool isKnown = c.in(k)->value || c.in(k)->shape().elem_cnt() != 1; // or refused
    const double number = isKnown ? c.knownFloat(k) : 0;
    if (!std::isfinite(number)) c.invalid("a range whose " + c.inputText(k) + " is " + std::to_string(number));
    isOpen |= !isKnown;
  }
  if (by == 0 || !std::isfinite(by)) c.invalid("a step of " + std::to_string(by));
  if (isOpen) return rangeOfRun(c, by);
  const double length = c.in(0)->type() == kInt64 ? wholeSteps(c.knownInt(0), c.knownInt(1), c.knownInt(2))
                                                  : std::max(0.0, std::ceil((c.knownFloat(1) - c.knownFloat(0)) / by));
  if (!(length <= static_cast<double>(kMostMade))) c.invalid("a range of " + std::to_string(length) + " elements");
  c.out(rangeFrom(c, c.in(0)->type(), c.in(0), c.in(2), static_cast<int64_t>(length)));
}

void convertEyeLike(Conversion &c) {
  const Term x = c.in(0);
  if (x->rank() != 2) c.invalid("a matrix is wanted, not " + x->shape().ToString());
  const DataType type = c.hasAttr("dtype") ? c.elementTypeOf(c.i("dtype", 1)) : x->type();
  const int64_t k = c.i("k", 0), rows = x->dim(0), columns = x->dim(1);
  if (x->shape().elem_cnt() > kMostMade) c.unsupported("a matrix of " + x->shape().ToString());
  std::vector<double> list(static_cast<size_t>(x->shape().elem_cnt()), 0);
  for (int64_t r = 0; r < rows; ++r)
    if (const int64_t at = r + k; at >= 0 && at < columns) list[static_cast<size_t>(r * columns + at)] = 1;
  c.out(c.constant(type, x->shape(), list));
}

/// a0 - a1 cos(2 pi k / n) + a2 cos(4 pi k / n); symmetric windows are over n - 1.
void window(ConverterTable *t, const std::string &op, double a0, double a1, double a2) {
  t->add(
      op,
      [=](Conversion &c) {
        const int64_t size = c.knownInt(0);
        if (size < 0 || size > kMostMade) c.invalid("a size of " + std::to_string(size));
        const double over = static_cast<double>(c.flag("periodic", true) ? size : size - 1);
        std::vector<double> list(static_cast<size_t>(size));
        for (int64_t k = 0; k < size; ++k) {
          const double at = 2 * M_PI * static_cast<double>(k) / over;
          list[static_cast<size_t>(k)] = a0 - a1 * std::cos(at) + a2 * std::cos(2 * at);
        }
        c.out(c.constant(c.elementTypeOf(c.i("output_datatype", 1)), Shape({size}), list));
      },
      "a constant");
}

constexpr double kMostEdge = 1e15; // a whole number in f64

/// Triangles over the bins of a spectrum, evenly spaced by pitch (ONNX's definition).
void convertMelWeights(Conversion &c) {
  const int64_t bins = c.knownInt(0), length = c.knownInt(1), rate = c.knownInt(2);
  const double low = c.knownFloat(3), high = c.knownFloat(4);
  if (bins < 1 || length < 1 || rate < 1 || bins > 100000 || length > (1 << 24))
    c.invalid("sizes of " + std::to_string(bins) + " and " + std::to_string(length));
  const int64_t columns = bins, rows = length / 2 + 1;
  if (columns > kMostMade / rows) c.unsupported("weights of " + Shape({rows, columns}).ToString());
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  std::vector<int64_t> edges;
  const double from = mel(low), step = (mel(high) - from) / static_cast<double>(bins + 2);
  for (int64_t k = 0; k < bins + 2; ++k) {
    const double hertz = 700 * (std::pow(10, (from + static_cast<double>(k) * step) / 2595) - 1);
    const double edge = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    if (!(std::abs(edge) < kMostEdge)) c.invalid("edges of " + std::to_string(low) + " and " + std::to_string(high));
    edges.push_back(static_cast<int64_t>(edge));
  }
  std::vector<double> list(static_cast<size_t>(rows * columns), 0);
  const auto put = [&](int64_t row, int64_t column, double v) {
    if (row >= 0 && row < rows) list[static_cast<size_t>(row * columns + column)] = v;
  };
  for (int64_t k = 0; k < bins; ++k) {
    const int64_t left = edges[static_cast<size_t>(k)], middle = edges[static_cast<size_t>(k + 1)],
                  right = edges[static_cast<size_t>(k + 2)];
    if (middle == left) put(middle, k, 1);
    const auto first = [](int64_t j) { return std::max<int64_t>(j, 0); };
    for (int64_t j = first(left); middle > left && j <= middle && j < rows; ++j)
      put(j, k, static_cast<double>(j - left) / static_cast<double>(middle - left));
    for (int64_t j = first(middle); right > middle && j < right && j < rows; ++j)
      put(j, k, static_cast<double>(right - j) / static_cast<double>(right - middle));
  }
  c.out(c.constant(c.elementTypeOf(c.i("output_datatype", 1)), Shape({rows, columns}), list));
}

} // namespace

void addConstants(ConverterTable *t) {
  t->add("Constant", [](Conversion &c) { c.invalid("it has no value"); }, "a constant or a variable", "strings");
  t->add("ConstantOfShape", convertConstantOfShape, "constant", "a shape of the run");
  t->add("Range", convertRange, "a constant; bounded by a limit of the run",
         "steps of the run, and limits that nothing bounds as Min or a size does");
  t->add("EyeLike", convertEyeLike, "a constant");
  window(t, "HannWindow", 0.5, 0.5, 0);
  window(t, "HammingWindow", 25.0 / 46, 21.0 / 46, 0);
  window(t, "BlackmanWindow", 0.42, 0.5, 0.08);
  t->add("MelWeightMatrix", convertMelWeights, "a constant");
}

} // namespace opc::onnx
