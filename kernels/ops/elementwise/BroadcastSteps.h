// What the gradient rules of broadcasting operators end with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/GradientSteps.h"

namespace opc::ops {

/// `a`, of the output's shape, summed down to what the input `arg` has.
inline void bindSum(GradientRule &g, const std::string &arg, const std::string &a, const Shape &have) {
  g.bind(arg, g.reduceLike(a, have, g.x(arg), g.shape(arg), arg + "_sum"));
}
/// The same with the other sign, which is changed in the smaller tensor.
inline void bindNegatedSum(GradientRule &g, const std::string &arg, const std::string &a, const Shape &have) {
  const std::string sum = g.reduceLike(a, have, g.x(arg), g.shape(arg), arg + "_sum");
  g.bind(arg, unary(g, "negative", sum, arg));
}

} // namespace opc::ops
