// The kernels of regions over rows, and what those over elements share with them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RegionCode.h"

namespace opc {

constexpr int64_t kTileBytes = 24576; // of all values of a tile: three quarters of the smallest first cache

Status makeRowRegion(std::shared_ptr<const Region> region, const std::shared_ptr<RegionCompiler> &compiler,
                     std::unique_ptr<user_op::OpKernel> *out);

/// The error for a step whose kernel has no loop.
Status noLoopHere(const OpInstance &op);

/// Memory of a thread for a tile: it grows to what the largest region needs and stays.
char *scratchOfThread(size_t bytes);

/// n elements by machine code. in[i] are n elements of input i, or its only one. What is left of a vector at the end
/// goes by way of vectors of our own.
void runCode(const RegionCode &code, const Region &region, const void **in, void *const *out, int64_t n);

} // namespace opc
