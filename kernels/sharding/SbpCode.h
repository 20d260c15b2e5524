// States as numbers: what plans and attributes hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "NdSbp.h"

namespace opc {

constexpr int64_t kBroadcastCode = -1, kPartialSumCode = -2;

/// An axis, -1 for B, -2 for P.
inline int64_t codeOf(const SbpParallel &s) {
  return s.has_split_parallel() ? s.axis() : s.has_partial_sum_parallel() ? kPartialSumCode : kBroadcastCode;
}
/// The inverse; nothing for a number that is no state.
inline std::optional<SbpParallel> stateOfCode(int64_t code) {
  if (code < kPartialSumCode) return std::nullopt;
  return code == kBroadcastCode    ? SbpParallel::broadcast()
         : code == kPartialSumCode ? SbpParallel::partialSum()
                                   : SbpParallel::split(code);
}

} // namespace opc
