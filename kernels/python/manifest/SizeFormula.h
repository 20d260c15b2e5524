// Sizes of outputs as formulas over the sizes of inputs and integer attributes: "x[0]", "(x[1] + 2 * pad) / stride".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <cstdint>
#include <functional>
#include <string>

namespace opc::python {

/// What names in a formula mean: `size(arg, axis)` of "x[0]" (axis may be negative), `attr(name)` of "stride".
struct FormulaNames {
  std::function<Result<int64_t>(const std::string &arg, int64_t axis)> size;
  std::function<Result<int64_t>(const std::string &name)> attr;
};

/// The value. "/" rounds down. Errors: OPC0920 for a text that is no formula or overflows, and those of the names.
Result<int64_t> evaluateFormula(const std::string &text, const FormulaNames &names);

} // namespace opc::python
