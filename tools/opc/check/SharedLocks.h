// Graphs that would have one lock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphCheck.h"

namespace opc::cli {

/// Takes graphs that would have one lock, x.pbtxt and x.onnx, off the list, and reports each: LOCK_SHARED. Of those for
/// all but one of which the rule is left out, the one stays. Whether there were any.
bool takeSharedLocks(const CheckSettings &settings, std::vector<std::string> *graphs, CheckReport *report);

} // namespace opc::cli
