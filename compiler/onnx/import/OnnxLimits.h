// The least and the most that numbers of the run can be, as far as the ops that make them say it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxDraft.h"

#include <limits>
#include <optional>

namespace opc::onnx {

struct Interval {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
};

/// Of a tensor of one number.
Interval intervalOf(GraphDraft *draft, const Term &number);
/// The count of a bounded value that the number is; null where it is none.
Term countBehind(GraphDraft *draft, Term number);
/// How far `high` can be above `low` at most; nothing where nothing says it.
std::optional<double> mostBetween(GraphDraft *draft, const Term &high, const Term &low);

} // namespace opc::onnx
