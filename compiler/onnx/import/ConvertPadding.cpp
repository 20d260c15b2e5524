// ONNX's Pad.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <algorithm>

namespace opc::onnx {
namespace {

/// Where the element at `k` of a padded axis comes from.
int64_t sourceOf(int64_t k, int64_t size, const std::string &mode) {
  if (mode == "edge") return std::clamp<int64_t>(k, 0, size - 1);
  if (mode == "wrap") return (k % size + size) % size;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1), at = (k % period + period) % period;
  return at < size ? at : period - at;
}

void convertPad(Conversion &c) {
  const Term x = c.in(0);
  const std::string mode = c.s("mode", "constant");
  std::vector<int64_t> pads;
  Term value;
  if (c.version < 2)
    pads = c.ints("paddings", {});
  else if (c.version < 11)
    pads = c.ints("pads", {});
  else
    pads = c.knownInts(1);
  if (c.version < 11)
    value = like(c, x, c.f("value", 0));
  else
    value = c.maybe(2);
  std::vector<int64_t> axes;
  if (c.version >= 18 && c.has(3)) axes = c.knownInts(3);
  if (axes.empty())
    for (int64_t k = 0; k < x->rank(); ++k) axes.push_back(k);
  if (pads.size() != 2 * axes.size())
    c.invalid(std::to_string(pads.size()) + " pads for " + std::to_string(axes.size()) +
              " axes, each of which has two");
  c.checkAxes(axes, x->rank());
  if (value && value->shape().elem_cnt() != 1)
    c.invalid(c.inputText(2) + " is " + value->desc.toString() + ", and must be one number");
  std::vector<int64_t> before(static_cast<size_t>(x->rank()), 0), after = before;
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto at = static_cast<size_t>(c.axisOf(axes[k], x->rank()));
    before[at] = pads[k], after[at] = pads[k + axes.size()];
  }
  const Term y = padded(c, x, before, after, mode, value);
  c.out(y == x ? c.op("identity", {x}) : y);
}

} // namespace

Term padded(Conversion &c, const Term &given, const std::vector<int64_t> &before, const std::vector<int64_t> &after,
            const std::string &mode, const Term &value) {
  Term x = given;
  std::vector<int64_t> first = before, last = after;
  for (int64_t k = 0; k < x->rank(); ++k) { // negative pads crop, and what is left is padded
    int64_t &b = first[static_cast<size_t>(k)], &a = last[static_cast<size_t>(k)];
    const int64_t begin = std::max<int64_t>(0, -b), end = x->dim(k) - std::max<int64_t>(0, -a);
    if (end < begin) c.invalid("more is cropped than there is along axis " + std::to_string(k));
    x = c.slice(x, k, begin, end);
    b = std::max<int64_t>(b, 0), a = std::max<int64_t>(a, 0);
  }
  if (mode == "constant") {
    if (std::all_of(first.begin(), first.end(), [](int64_t n) { return n == 0; }) && first == last) return x;
    Attrs attrs{{"padding_before", first}, {"padding_after", last}};
    if (value) {
      if (x->isFloating())
        attrs["floating_constant_value"] = c.knownFloats(value, "the constant")[0];
      else
        attrs["integral_constant_value"] = c.knownInts(value, "the constant")[0];
    }
    return c.op("pad", {x}, attrs);
  }
  for (int64_t axis = 0; axis < x->rank(); ++axis) {
    const int64_t b = first[static_cast<size_t>(axis)], a = last[static_cast<size_t>(axis)], size = x->dim(axis);
    if (b == 0 && a == 0) continue;
    if (size == 0) c.invalid("nothing can be repeated along axis " + std::to_string(axis) + ", which is empty");
    if (b > (1 << 24) || a > (1 << 24)) c.unsupported("pads of " + std::to_string(b) + " and " + std::to_string(a));
    std::vector<int64_t> from;
    for (int64_t k = -b; k < size + a; ++k) from.push_back(sourceOf(k, size, mode));
    x = c.op("gather", {x, c.constant(from, Shape({static_cast<int64_t>(from.size())}))}, {{"axis", axis}});
  }
  return x;
}

void addPadding(ConverterTable *t) {
  t->add("Pad", convertPad, "pad, slice; gather where it repeats", "pads and constants of the run");
}

} // namespace opc::onnx
