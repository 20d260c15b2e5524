// How a reduction walks its input: which axes are merged, what runs in parallel, where partial results are cut.
// Everything follows from the shape, never from the number of threads, so that results do not either.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Walk.h"

namespace opc::ops {

/// One merged dimension of the outer walk.
using ReduceDim = StridedDim;

/// The input as (outer kept) x (outer reduced) x (innermost run). When the innermost merged dimension is reduced
/// (`rows`), an output element is the reduction of `segments` runs of `inner` elements each. When it is kept, `inner`
/// neighbouring output elements are the reduction of `segments` rows.
struct ReducePlan {
  /// `axes`: resolved, sorted, distinct.
  static ReducePlan make(const Shape &shape, const std::vector<int64_t> &axes);

  std::vector<ReduceDim> kept, reduced;
  bool rows = true;
  int64_t inner = 1;
  int64_t keptCount = 1;   // product of kept
  int64_t segments = 1;    // product of reduced
  int64_t outputs = 1;     // keptCount, times inner when !rows
  int64_t reduceCount = 1; // elements per output
  int64_t chunks = 1;      // pieces of the reduced range whose results are combined in order
  int64_t chunkUnits = 1;  // units (rows: blocks of kBlock elements; else rows) a chunk
  int64_t unitsPerSegment = 1;

  static constexpr int64_t kBlock = 4096;   // rows: elements a unit
  static constexpr int64_t kColumns = 1024; // columns a job
  static constexpr int64_t kRowBlock = 64;  // columns: rows between merges into the wide accumulator
  /// Whether each output is the reduction of `inner` elements side by side, one after the other.
  bool isRowByRow() const {
    return rows && segments == 1 && inner > 1 && kept.size() <= 1 && (kept.empty() || kept[0].stride == inner);
  }
  /// Partial results that a run needs room for; 0 when there is one chunk.
  int64_t partials() const { return chunks > 1 ? chunks * outputs : 0; }
};

} // namespace opc::ops
