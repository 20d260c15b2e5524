// ONNX's ops that look for elements, and those that go along an axis.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

namespace opc::onnx {
namespace {

void arg(ConverterTable *t, const std::string &name, const std::string &op) {
  t->add(
      name,
      [op](Conversion &c) {
        const Term x = c.in(0);
        const int64_t axis = c.axisOf(c.i("axis", 0), x->rank());
        const bool isLast = c.flag("select_last_index", false);
        Term y = c.toLast(x, axis);
        if (isLast) y = c.op("flip", {y}, {{"dims", std::vector<int64_t>{y->rank() - 1}}});
        Term at = c.cast(c.op(op, {y}), kInt64);
        if (isLast) at = c.op("broadcast_sub", {c.scalar(kInt64, static_cast<double>(x->dim(axis) - 1)), at});
        DimVector dims = x->shape().dim_vec();
        if (c.flag("keepdims", true))
          dims[static_cast<size_t>(axis)] = 1;
        else
          dims.erase(dims.begin() + axis);
        c.out(c.reshape(at, dims));
      },
      op + ", transpose");
}

void convertTopK(Conversion &c) {
  const Term x = c.in(0);
  const int64_t axis = c.axisOf(c.i("axis", -1), x->rank());
  const bool isLargest = c.version < 11 || c.flag("largest", true);
  const bool isOpen = c.version >= 10 && !c.in(1)->value;
  const int64_t k = isOpen ? x->dim(axis) : c.version < 10 ? c.required("k") : c.knownInt(1);
  if (k < 0 || k > x->dim(axis))
    c.invalid((c.version < 10 ? "attribute 'k'" : c.inputText(1)) + " is " + std::to_string(k) + ", and axis " +
                  std::to_string(axis) + " of " + x->desc.toString() + " has " + std::to_string(x->dim(axis)) +
                  (x->dim(axis) == 1 ? " element" : " elements"),
              "k is from 0 to " + std::to_string(x->dim(axis)));
  if (k == 0) {
    DimVector dims = x->shape().dim_vec();
    dims[static_cast<size_t>(axis)] = 0;
    c.out(0, c.constant(x->type(), Shape(dims), {}));
    return c.out(1, c.constant(kInt64, Shape(dims), {}));
  }
  // A count of the run takes the first of all of them.
  if (isOpen && c.in(1)->shape().elem_cnt() != 1)
    c.invalid(c.inputText(1) + " is " + c.in(1)->desc.toString() + ", and must be one number");
  const Term count = isOpen && k > 0 ? c.within(c.reshape(c.cast(c.in(1), kInt64), {1}), k + 1, 1) : nullptr;
  const Term y = c.toLast(x, axis);
  Term at;
  if (isLargest) {
    at = c.op("top_k", {y}, {{"k", k}, {"sorted", true}});
  } else {
    at = c.slice(c.op("arg_sort", {y}, {{"direction", std::string("ASCENDING")}}), y->rank() - 1, 0, k);
  }
  at = c.cast(at, kInt64);
  const Term values = c.fromLast(c.op("dim_gather", {y, at}, {{"dim", y->rank() - 1}}), axis);
  c.out(0, count ? c.cut(values, axis, count) : values);
  c.out(1, count ? c.cut(c.fromLast(at, axis), axis, count) : c.fromLast(at, axis));
}

void scan(ConverterTable *t, const std::string &name, const std::string &op, double first) {
  t->add(
      name,
      [op, first](Conversion &c) {
        Term x = c.in(0);
        const int64_t axis = c.axisOf(c.knownInt(1), x->rank()), size = x->dim(axis);
        const bool isReverse = c.flag("reverse", false);
        const auto turned = [&](const Term &y) {
          return isReverse ? c.op("flip", {y}, {{"dims", std::vector<int64_t>{axis}}}) : y;
        };
        x = turned(x);
        if (c.flag("exclusive", false) && size > 0) { // one element later, behind the first value
          DimVector dims = x->shape().dim_vec();
          dims[static_cast<size_t>(axis)] = 1;
          const Term head = c.expand(like(c, x, first), Shape(dims));
          x = size == 1 ? head : c.op("cat", {head, c.slice(x, axis, 0, size - 1)}, {{"axis", axis}});
        }
        c.out(turned(c.op(op, {x}, {{"dim", axis}})));
      },
      op + ", flip, cat", "an axis of the run");
}

void convertTrilu(Conversion &c) {
  const Term x = c.in(0);
  const int64_t k = c.has(1) ? c.knownInt(1) : 0;
  c.out(c.op(c.flag("upper", true) ? "triu" : "tril", {x}, {{"diagonal", k}}));
}

} // namespace

void addSelections(ConverterTable *t) {
  arg(t, "ArgMax", "argmax");
  arg(t, "ArgMin", "argmin");
  t->add("TopK", convertTopK, "top_k, arg_sort, dim_gather");
  scan(t, "CumSum", "cumsum", 0);
  scan(t, "CumProd", "cumprod", 1);
  t->add("Trilu", convertTrilu, "triu, tril", "a diagonal of the run");
}

} // namespace opc::onnx
