// The last step of matching: ops that stand where another one stood, under another name and of another type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphMatch.h"

namespace opc {

/// Pairs ops that have no partner, read the same tensors and are read by the same ops, where no other one fits as well.
void pairByPlace(const FactNodes &a, const FactNodes &b, GraphMatch *match);

} // namespace opc
