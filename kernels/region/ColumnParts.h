// Where a region keeps what its loops over columns have of each piece of rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Region.h"

#include "opc/ColumnsLoop.h"

namespace opc {

constexpr int64_t kMaxRegionPieces = 4096; // of rows, whose parts are put together

/// The loop of a step that puts rows together; null for others.
const user_op::ColumnsLoop *columnsOf(const RegionStep &step);

inline bool isByColumns(const user_op::RowsLoop &loop) {
  return dynamic_cast<const user_op::ColumnsLoop *>(&loop) != nullptr;
}

/// All such steps of a region have the same pieces of rows. A thread makes a piece in its own memory, and leaves the
/// part in the region's workspace; the part of the only piece stays where it is.
struct ColumnParts {
  int64_t pieceRows = 0, pieces = 0; // 0: there are none
  std::vector<size_t> states,
      parts;                        // by step: where its state is in a thread's memory, its first part in the workspace
  size_t stateBytes = 0, bytes = 0; // of a thread's memory, of the workspace
};
ColumnParts columnParts(const std::vector<const user_op::ColumnsLoop *> &steps);
ColumnParts columnParts(const Region &region);
/// Bytes that a region's kernel on the CPU needs beside its tensors: for those parts.
uint64_t regionWorkspace(const Region &region);

} // namespace opc
