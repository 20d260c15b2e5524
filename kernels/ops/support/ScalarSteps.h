// Backward ops whose second operand is a number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/GradientSteps.h"

namespace opc::ops {

/// scalar_add and its like.
inline std::string withScalar(GradientRule &g, const char *op, const std::string &a, double value,
                              const std::string &suffix) {
  return g.add(op, suffix).in("in", a).attr("has_float_operand", true).attr("float_operand", value).out();
}

} // namespace opc::ops
