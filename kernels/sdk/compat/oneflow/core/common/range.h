// A half-open range of integers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/util.h"

namespace oneflow {

class Range final {
public:
  Range() = default;
  Range(int64_t begin, int64_t end) : begin_(begin), end_(end) {}
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  int64_t &mut_begin() { return begin_; }
  int64_t &mut_end() { return end_; }
  int64_t size() const { return end_ - begin_; }
  bool operator==(const Range &o) const { return begin_ == o.begin_ && end_ == o.end_; }
  bool operator!=(const Range &o) const { return !(*this == o); }

private:
  int64_t begin_ = 0, end_ = 0;
};

/// What two ranges share; [0, 0) when that is nothing.
inline Range FindIntersectant(const Range &a, const Range &b) {
  const Range shared(std::max(a.begin(), b.begin()), std::min(a.end(), b.end()));
  return shared.size() > 0 ? shared : Range();
}

} // namespace oneflow
