// A limit on memory as a price on bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "SignaturePlanner.h"

namespace opc::planner {

/// The cheapest solution where a byte of held tensors costs `price` and seconds count `secondsWeight` times. The
/// solution's cost is in plain seconds; bound and gap are those of the weighted problem.
Solution solveAtPrice(const Problem &problem, const Options &options, double secondsWeight, double price);

/// The cheapest solution within options.memoryLimit: the price is raised until it fits. The bound is the Lagrangian
/// one.
Solution solveWithinMemory(const Problem &problem, const Options &options);

} // namespace opc::planner
