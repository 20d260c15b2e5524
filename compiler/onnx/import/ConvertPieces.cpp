// ONNX's ops that cut tensors and put them together.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <algorithm>

namespace opc::onnx {
namespace {

/// First and end of a slice as ONNX clamps them; end is -1 where a backward slice reaches the first element.
struct Range {
  int64_t begin, end, step, count;
};
Range clamped(Conversion &c, int64_t begin, int64_t end, int64_t step, int64_t size) {
  if (step == 0) c.invalid("a step of 0");
  const auto wrap = [&](int64_t k) { return k < 0 ? k + size : k; }; // far below stays below
  Range r{0, 0, step, 0};
  if (step > 0) {
    r.begin = std::clamp<int64_t>(wrap(begin), 0, size), r.end = std::clamp<int64_t>(wrap(end), 0, size);
    r.count = r.end > r.begin ? (r.end - r.begin - 1) / step + 1 : 0;
  } else {
    if (size == 0) return r;
    // Unlike numpy's, a start before the first element is the first one.
    r.begin = std::clamp<int64_t>(wrap(begin), 0, size - 1), r.end = std::clamp<int64_t>(wrap(end), -1, size - 1);
    const auto span = static_cast<uint64_t>(r.begin - r.end), by = uint64_t{0} - static_cast<uint64_t>(step);
    r.count = r.begin > r.end ? static_cast<int64_t>((span - 1) / by) + 1 : 0;
  }
  return r;
}

/// A tensor without elements along an axis.
Term emptied(Conversion &c, const Term &x, size_t axis) {
  DimVector dims = x->shape().dim_vec();
  dims[axis] = 0;
  return c.constant(x->type(), Shape(dims), {});
}

/// Whether the node takes the first elements along one axis, as many as the run says.
bool isOpen(Conversion &c) {
  if (c.version < 10 || c.in(2)->value || c.in(2)->shape().elem_cnt() != 1 || !c.in(1)->value) return false;
  const bool hasStep = c.has(4), isPlain = !hasStep || (c.in(4)->value && c.knownInt(4) == 1);
  return isPlain && c.knownInt(1) == 0 && (!c.has(3) || c.in(3)->value) && c.in(0)->rank() > 0;
}

/// An end is counted from behind where it is negative, and held to what there is.
void takeFirst(Conversion &c) {
  const Term x = c.in(0), end = c.reshape(c.cast(c.in(2), kInt64), {1}), none = c.constant({0}, Shape({1}));
  const int64_t axis = c.axisOf(c.has(3) ? c.knownInt(3) : 0, x->rank());
  const Term size = c.constant({x->dim(axis)}, Shape({1}));
  const Term fromFront = c.op("where", {c.op("broadcast_less", {end, none}), c.op("broadcast_add", {end, size}), end});
  const Term count = c.op("broadcast_minimum", {c.op("broadcast_maximum", {fromFront, none}), size});
  c.out(c.cut(c.op("identity", {x}), axis, count));
}

void convertSlice(Conversion &c) {
  Term x = c.in(0);
  if (isOpen(c)) return takeFirst(c);
  std::vector<int64_t> starts, ends, axes, steps;
  if (c.version < 10) {
    starts = c.ints("starts", {}), ends = c.ints("ends", {}), axes = c.ints("axes", {});
  } else {
    starts = c.knownInts(1), ends = c.knownInts(2);
    if (c.has(3)) axes = c.knownInts(3);
    if (c.has(4)) steps = c.knownInts(4);
  }
  if (axes.empty())
    for (size_t k = 0; k < starts.size(); ++k) axes.push_back(static_cast<int64_t>(k));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.invalid("starts, ends, axes and steps must have one length");
  std::vector<int64_t> start(static_cast<size_t>(x->rank()), 0), stop = x->shape().dim_vec(),
                                                                 step(static_cast<size_t>(x->rank()), 1);
  std::vector<int64_t> flipped;
  DimVector counts = x->shape().dim_vec();
  c.checkAxes(axes, x->rank());
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t axis = c.axisOf(axes[k], x->rank());
    const auto at = static_cast<size_t>(axis);
    const Range r = clamped(c, starts[k], ends[k], steps[k], x->dim(axis));
    counts[at] = r.count;
    if (r.count == 0) continue;
    if (r.step > 0) {
      start[at] = r.begin, stop[at] = r.end, step[at] = std::min(r.step, x->dim(axis));
    } else { // backwards: the elements forwards, then turned
      const int64_t by = std::max(r.step, -x->dim(axis)), last = r.begin + (r.count - 1) * by;
      start[at] = last, stop[at] = r.begin + 1, step[at] = -by;
      flipped.push_back(axis);
    }
  }
  if (x->rank() == 0) return c.out(x);
  if (Shape(counts).elem_cnt() == 0) return c.out(c.constant(x->type(), Shape(counts), {}));
  x = c.op("slice", {x}, {{"start", start}, {"stop", stop}, {"step", step}});
  c.out(flipped.empty() ? x : c.op("flip", {x}, {{"dims", flipped}}));
}

void convertConcat(Conversion &c) {
  const auto all = c.all();
  if (c.version >= 4 && !c.hasAttr("axis")) c.invalid("attribute 'axis' is missing");
  const int64_t axis = c.axisOf(c.i("axis", 1), all[0]->rank());
  std::vector<Term> parts;
  for (const Term &t : all)
    if (t->rank() != all[0]->rank())
      c.invalid("tensors of the ranks " + std::to_string(all[0]->rank()) + " and " + std::to_string(t->rank()));
    else if (t->dim(axis) != 0)
      parts.push_back(t);
  if (parts.empty()) return c.out(all[0]);
  c.out(parts.size() == 1 ? c.op("identity", {parts[0]}) : c.op("cat", parts, {{"axis", axis}}));
}

void convertSplit(Conversion &c) {
  const Term x = c.in(0);
  const int64_t axis = c.axisOf(c.i("axis", 0), x->rank()), size = x->dim(axis);
  const auto at = static_cast<size_t>(axis);
  std::optional<std::vector<int64_t>> sizes = c.axes("split", 13, 1);
  if (c.version < 2 && c.has(1)) sizes = c.knownInts(1);
  if (!sizes) {
    const int64_t n = c.version >= 18 && c.hasAttr("num_outputs") ? c.i("num_outputs", 1) : c.node.output_size();
    if (n < 1) c.invalid("it has no outputs");
    if (n != c.node.output_size())
      c.invalid("it makes " + std::to_string(n) + " pieces, and has " + std::to_string(c.node.output_size()) +
                (c.node.output_size() == 1 ? " output" : " outputs"));
    if (c.version < 18 && size % n)
      c.invalid("axis " + std::to_string(axis) + " has " + std::to_string(size) + " elements, which do not make " +
                std::to_string(n) + " equal pieces");
    const int64_t part = (size + n - 1) / n;
    sizes.emplace();
    for (int64_t k = 0, left = size; k < n; ++k, left -= part) sizes->push_back(std::clamp<int64_t>(left, 0, part));
  }
  const auto pieces = static_cast<int64_t>(sizes->size());
  if (c.version >= 18 && c.i("num_outputs", pieces) != pieces)
    c.invalid("attribute 'num_outputs' is " + std::to_string(c.i("num_outputs", pieces)) + ", and " + c.inputText(1) +
              " has " + std::to_string(pieces) + " sizes");
  if (c.node.output_size() != pieces)
    c.invalid("it makes " + std::to_string(pieces) + " pieces, and has " + std::to_string(c.node.output_size()) +
              (c.node.output_size() == 1 ? " output" : " outputs"));
  int64_t begin = 0;
  for (size_t k = 0; k < sizes->size(); ++k) {
    const int64_t n = (*sizes)[k];
    if (n < 0 || n > size - begin)
      c.invalid("pieces of more than the " + std::to_string(size) + " elements of axis " + std::to_string(axis));
    const Term piece = n == 0 ? emptied(c, x, at) : c.slice(x, axis, begin, begin + n);
    c.out(static_cast<int>(k), piece == x ? c.op("identity", {x}) : piece);
    begin += n;
  }
  if (begin != size)
    c.invalid("pieces of " + std::to_string(begin) + " elements in all, axis " + std::to_string(axis) + " has " +
              std::to_string(size));
}

void convertCenterCropPad(Conversion &c) {
  Term x = c.in(0);
  const auto shape = c.knownInts(1);
  std::vector<int64_t> axes = c.ints("axes", {});
  if (axes.empty())
    for (int64_t k = 0; k < x->rank(); ++k) axes.push_back(k);
  if (axes.size() != shape.size()) c.invalid("as many sizes as axes are wanted");
  c.checkAxes(axes, x->rank());
  std::vector<int64_t> before(static_cast<size_t>(x->rank()), 0), after = before;
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t axis = c.axisOf(axes[k], x->rank()), have = x->dim(axis), want = shape[k];
    const auto at = static_cast<size_t>(axis);
    if (want < have) {
      const int64_t begin = (have - want) / 2;
      before[at] = -begin, after[at] = -(have - want - begin);
    } else {
      before[at] = (want - have) / 2, after[at] = want - have - before[at];
    }
  }
  c.out(padded(c, x, before, after, "constant", nullptr));
}

} // namespace

void addPieces(ConverterTable *t) {
  t->add("Slice", convertSlice, "slice, flip", "bounds of the run but an end of one axis from 0");
  t->add("Concat", convertConcat, "cat");
  t->add("Split", convertSplit, "slice");
  t->add("CenterCropPad", convertCenterCropPad, "pad, slice");
}

} // namespace opc::onnx
