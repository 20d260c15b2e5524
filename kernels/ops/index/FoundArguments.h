// What the device code of searches is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

/// The places of the elements that are not 0, as rows of `rank` indices; rows behind them are 0.
struct ArgwhereArguments {
  static constexpr int kMostAxes = 20;
  const void *in;
  void *places, *count; // i32, or i64 where isWide
  int64_t n;
  int64_t dims[kMostAxes];
  int32_t rank, isWide;
};

/// Boxes [batch, n, 4] with scores [batch, classes, n], of which each class keeps at most `most`.
struct SuppressionArguments {
  const float *boxes, *scores;
  int64_t *kept, *counts; // of each class: its boxes by score, and how many; in the workspace
  int64_t *out, *count;
  int64_t lists, classes, n, most; // lists: batch * classes
  float overlap, least;
  int32_t isCentre, hasLeast;
};

/// Rows of `inner` elements, and which of them are equal.
struct UniqueArguments {
  const void *in;
  int64_t *heads; // of each row the first that is equal to it; in the workspace
  int64_t *first, *inverse, *counts, *count;
  int64_t n, inner;
  int32_t isSorted, unused;
};

} // namespace opc::ops
