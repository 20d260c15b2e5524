// Where a region keeps what its loops over columns have of each piece of rows.
// SPDX-License-Identifier: Apache-2.0
#include "ColumnParts.h"

#include <algorithm>

namespace opc {

static size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

const user_op::ColumnsLoop *columnsOf(const RegionStep &step) {
  return dynamic_cast<const user_op::ColumnsLoop *>(step.rows.get());
}

ColumnParts columnParts(const std::vector<const user_op::ColumnsLoop *> &steps) {
  ColumnParts parts;
  for (const user_op::ColumnsLoop *loop : steps) {
    parts.states.push_back(parts.stateBytes);
    parts.parts.push_back(parts.bytes);
    if (!loop) continue;
    parts.pieceRows = loop->pieceRows;
    parts.pieces = loop->pieces();
    parts.stateBytes += aligned(std::max(loop->StateBytes(), loop->KeptBytes()));
    if (parts.pieces > 1) parts.bytes += aligned(static_cast<size_t>(parts.pieces) * loop->KeptBytes());
  }
  return parts;
}

ColumnParts columnParts(const Region &region) {
  std::vector<const user_op::ColumnsLoop *> steps;
  for (const RegionStep &step : region.steps) steps.push_back(columnsOf(step));
  return columnParts(steps);
}

uint64_t regionWorkspace(const Region &region) { return columnParts(region).bytes; }

} // namespace opc
