// Dimensions as functions of sizes, found from their values at samples. Knows no MLIR.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace opc {

/// A product of factors, each floor((constant + sum of coefficient[i] * size[i]) / divisor) with no coefficient below
/// zero. No factors: a dimension that does not depend on the sizes.
struct SizeExpression {
  struct Factor {
    int64_t constant = 0;
    std::vector<int64_t> coefficient; // one for each size
    int64_t divisor = 1;
  };
  std::vector<Factor> factors;

  bool isFixed() const { return factors.empty(); }
  int64_t at(const std::vector<int64_t> &sizes) const;
};

/// An expression that gives `values[k]` at the sizes `samples[k]`, for every k. Tries, in this order: a fixed number;
/// one factor; a size times one factor; one factor for each size. Nothing when none of them fits.
std::optional<SizeExpression> fitSizes(const std::vector<std::vector<int64_t>> &samples,
                                       const std::vector<int64_t> &values);

} // namespace opc
