// What the gradient rules of reductions over axes start from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reduce/ReduceOp.h"
#include "support/GradientSteps.h"

namespace opc::ops::reduce {

using Ints = std::vector<int32_t>;

/// A reduction over axes: its input, its axes, and its output and gradient with the axes kept as 1.
struct Reduction {
  Reduction(GradientRule &rule, const char *inArg, const char *outArg, const char *axisAttr, bool emptyIsAll)
      : g(rule), in(rule.x(inArg)), shape(rule.shape(inArg)), outShape(rule.shape(outArg)), out(outArg) {
    axes = valueOf(resolveAxes(rule.attr<Ints>(axisAttr), shape.NumAxes()));
    if (axes.empty() && emptyIsAll)
      for (int64_t a = 0; a < shape.NumAxes(); ++a) axes.push_back(a);
    kept = reducedShape(shape, axes, true);
  }
  Ints axisList() const { return Ints(axes.begin(), axes.end()); }
  int64_t count() const {
    int64_t n = 1;
    for (int64_t a : axes) n *= shape.At(a);
    return n;
  }
  std::string keptDy() const { return reshaped(g, g.dy(out), outShape, kept, "dy_kept"); }
  std::string keptOut() const { return reshaped(g, g.y(out), outShape, kept, "out_kept"); }
  /// A tensor of the output's shape repeated to the input's.
  std::string repeated(const std::string &a, const std::string &suffix) const {
    return repeatedLike(g, a, outShape, in, shape, axes, suffix);
  }
  GradientRule &g;
  std::string in;
  Shape shape, outShape, kept;
  std::string out;
  std::vector<int64_t> axes;
};
/// That of a reduce_* operator.
inline Reduction reduction(GradientRule &g) { return Reduction(g, "input_tensor", "output_tensor", "axis", false); }

} // namespace opc::ops::reduce
