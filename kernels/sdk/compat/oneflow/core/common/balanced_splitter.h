// Cuts a number into parts that differ by one at most, the larger ones first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/range.h"

namespace oneflow {

class BalancedSplitter final {
public:
  BalancedSplitter(int64_t total, int64_t parts) : total_(total), parts_(parts) {
    CHECK_GT(parts, 0) << "a number is cut into at least one part";
  }
  Range At(int64_t part) const {
    CHECK(part >= 0 && part < parts_) << "part " << part << " of " << parts_;
    return Range(beginOf(part), beginOf(part + 1));
  }
  /// Parts `first` to `last`, both included.
  Range At(int64_t first, int64_t last) const {
    CHECK_LE(first, last);
    return Range(At(first).begin(), At(last).end());
  }

private:
  int64_t beginOf(int64_t part) const { return total_ / parts_ * part + std::min(part, total_ % parts_); }
  int64_t total_, parts_;
};

} // namespace oneflow
