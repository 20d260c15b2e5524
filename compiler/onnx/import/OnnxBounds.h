// Values of which only the run knows how much there is: what may read them, and what becomes of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxConversion.h"

namespace opc::onnx {

/// Converts the node. Where inputs are bounded its outputs are, too, as the op's rule says; without a rule the node is
/// refused.
void convertWithBounds(Conversion &c, const Converter &converter);

/// Outputs that are bounded are made by the op "bounded", by which a session cuts them, and behind all outputs come the
/// counts, NAME.count.
void addCounts(GraphDraft *draft, std::vector<std::pair<std::string, Term>> *outputs);

/// The smallest or largest number of a type, infinities among them.
Term extreme(const Conversion &c, DataType type, bool isLargest);

} // namespace opc::onnx
