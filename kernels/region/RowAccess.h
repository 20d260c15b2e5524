// How the steps of a region by rows read their operands, and which shapes allow that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Region.h"

#include <cstdint>
#include <string>
#include <vector>

namespace opc {

/// What of a region decides where its elements are.
struct RegionOutline {
  struct Step {
    std::vector<uint32_t> args; // values: inputs, then the results of the steps
    std::vector<Shape> made;
    const user_op::RowsLoop *rows = nullptr; // null: element by element
    const user_op::MoveMap *moves = nullptr; // not null: it computes nothing
  };
  Shape shape;         // of the loop
  int64_t rowSize = 0; // elements; the loop has shape.elem_cnt() / rowSize rows
  std::vector<Shape> inputs;
  std::vector<Step> steps;
  std::vector<uint32_t> outputs; // values; for moves (MoveAccess.h)
};

/// How a step reads an operand.
enum class RowRead {
  kRows,      // the rows' elements, side by side
  kOnes,      // an element of each row, side by side
  kEach,      // an element of each row, for all of its elements
  kSingle,    // one element for all
  kBroadcast, // an input that is broadcast to the loop's shape
  kWhole,     // an input, all of it
};

struct RowAccess {
  std::vector<std::vector<RowRead>> reads; // by step and operand
  std::vector<bool> isOne;                 // by value that steps make: an element of each row
  std::vector<bool> isWhole;               // the same: made of all rows, and there when all have been computed
};

RegionOutline outlineOf(const Region &region);

/// Whether a tensor is broadcast to a shape, as numpy does.
bool broadcasts(const Shape &from, const Shape &to);

/// Whether a tensor has an element for each row, and 1 where the loop's shape has the dimensions of a row.
bool isOneForEach(const Shape &shape, const Shape &loop, int64_t rowSize);

/// Fills `access`. False where an element of some row depends on other rows in a way that this loop does not have;
/// `why` then says which step.
bool findRowAccess(const RegionOutline &outline, RowAccess *access, std::string *why);

} // namespace opc
