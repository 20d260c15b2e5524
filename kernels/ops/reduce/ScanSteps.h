// Steps of gradient rules along one axis: the other way round, or one place on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/GradientSteps.h"

namespace opc::ops::reduce {

inline std::string flipped(GradientRule &g, const std::string &a, int64_t axis, const std::string &suffix) {
  return g.add("flip", suffix).in("x", a).attr("dims", std::vector<int32_t>{static_cast<int32_t>(axis)}).out("y");
}

/// `by` is 1: what entry i - 1 of `a` was, with `fill` in front; -1: what entry i + 1 was, with `fill` at the end.
inline std::string shifted(GradientRule &g, const std::string &a, const Shape &shape, int64_t axis, int64_t by,
                           double fill, const std::string &suffix) {
  if (shape.At(axis) == 0) return a;
  std::vector<int64_t> before(static_cast<size_t>(shape.NumAxes()), 0), after = before;
  before[static_cast<size_t>(axis)] = by;
  after[static_cast<size_t>(axis)] = -by;
  return g.add("pad", suffix)
      .in("x", a)
      .attr("padding_before", before)
      .attr("padding_after", after)
      .attr("floating_constant_value", fill)
      .out("y");
}

/// linear_scan of the factors `a` and the terms `b`.
inline std::string linearScan(GradientRule &g, const std::string &a, const std::string &b, int64_t axis, bool reverse,
                              const std::string &suffix) {
  return g.add("linear_scan", suffix).in("a", a).in("b", b).attr("dim", axis).attr("reverse", reverse).out("y");
}

} // namespace opc::ops::reduce
