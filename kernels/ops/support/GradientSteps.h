// Backward ops that the gradient rules of several families are made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/GradientRule.h"

namespace opc::ops {

using user_op::GradientRule;
using user_op::gradientRule;

/// `a` in the given shape.
inline std::string reshaped(GradientRule &g, const std::string &a, const Shape &have, const Shape &want,
                            const std::string &suffix) {
  if (have == want) return a;
  return g.add("reshape", suffix).in("in", a).attr("shape", want).out();
}

/// `a`, which lacks `axes` of `like` or has them with size 1, repeated along them: the inverse of a reduction.
inline std::string repeatedLike(GradientRule &g, const std::string &a, const Shape &have, const std::string &like,
                                const Shape &want, const std::vector<int64_t> &axes, const std::string &suffix) {
  if (have == want) return a;
  return g.add("broadcast_like", suffix)
      .in("x", a)
      .in("like", like)
      .attr("broadcast_axes", std::vector<int32_t>(axes.begin(), axes.end()))
      .out("y");
}

inline std::string binary(GradientRule &g, const char *op, const std::string &a, const std::string &b,
                          const std::string &suffix) {
  return g.add(op, suffix).in("x", a).in("y", b).out("z");
}
inline std::string unary(GradientRule &g, const char *op, const std::string &a, const std::string &suffix) {
  return g.add(op, suffix).in("x", a).out("y");
}
inline std::string summed(GradientRule &g, const std::string &a, std::vector<int32_t> axes, bool keepdims,
                          const std::string &suffix) {
  return g.add("reduce_sum", suffix)
      .in("input_tensor", a)
      .attr("axis", std::move(axes))
      .attr("keepdims", keepdims)
      .out("output_tensor");
}

} // namespace opc::ops
