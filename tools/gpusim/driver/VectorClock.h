// Vector clocks: what an operation can rely on to have happened before it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace opc::gpusim::driver {

/// A lane is a stream, or one chain of a graph's nodes; each of its operations has the next number, from 1.
class VectorClock {
public:
  uint64_t at(uint32_t lane) const { return lane < numbers_.size() ? numbers_[lane] : 0; }
  void set(uint32_t lane, uint64_t number) {
    if (lane >= numbers_.size()) numbers_.resize(lane + 1);
    numbers_[lane] = number;
  }
  void join(const VectorClock &other) {
    if (other.numbers_.size() > numbers_.size()) numbers_.resize(other.numbers_.size());
    for (size_t i = 0; i < other.numbers_.size(); ++i) numbers_[i] = std::max(numbers_[i], other.numbers_[i]);
  }

private:
  std::vector<uint64_t> numbers_;
};

} // namespace opc::gpusim::driver
