// The values of a lock, and of the files beside it, against those of a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphCheck.h"

#include <vector>

namespace opc::cli {

/// Adds what differs between the sections numerics of the lock and of now, or why they cannot be compared. `older`:
/// whole outputs of the graph that it is checked against; of a lock they are in the file beside it, where there is one.
void compareValues(const CheckSettings &settings, std::vector<NamedOutput> older, CheckedGraph *checked);

} // namespace opc::cli
