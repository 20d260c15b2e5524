// Where device code says that an index is wrong. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::cuda {

/// The first wrong index of a tensor and its value: two words whose upper halves are its position, so that the least of
/// each belong together, and whose lower halves are those of the value. All bits are set where nothing was wrong.
struct IndexFault {
  uint64_t low, high;
};
constexpr uint64_t kNoFault = ~uint64_t{0};
/// Positions beyond are all said to be this one.
constexpr int64_t kLastPosition = 0xfffffffe;

} // namespace opc::cuda
