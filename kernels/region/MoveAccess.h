// Where the loop of a region finds its elements when some of the region's ops only move them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RowAccess.h"

namespace opc {

/// Elements of an input of the region, for a box of the loop.
struct MovedSource {
  uint32_t input = 0;
  DimVector begin, size; // of the box, by axis of the loop
  int64_t offset = 0;    // in the input, for the loop's index 0
  DimVector strides;     // by axis of the loop
};

/// What the loop reads.
struct LoopInput {
  uint32_t value = 0; // an input of the region as it is, or the value whose elements `sources` give
  Shape shape;
  bool isMoved = false;
  std::vector<MovedSource> sources;
  uint64_t fill = 0; // the element where no source is
  std::vector<user_op::AxisRead> map;
};

/// The steps that compute, on what the loop reads.
struct MoveAccess {
  struct Arg {
    bool isInput = false;
    uint32_t at = 0; // of `inputs`, or a value that a step makes
  };
  std::vector<LoopInput> inputs;
  std::vector<std::vector<Arg>> args; // by step; of those that move, nothing
  std::vector<uint32_t> outputs;      // values that steps make
};

constexpr size_t kMaxMovedSources = 64; // of one input of the loop

/// Whether every element that a map reads is one of the inputs', and every element of the output has one origin. Axes
/// of one element are constants afterwards.
bool makeSound(user_op::MoveMap *map, const std::vector<user_op::TensorDesc> &inputs, const user_op::TensorDesc &out);

bool hasMoves(const RegionOutline &outline);

/// The arguments and outputs of the steps that compute, by the numbers that values have without the other steps.
struct LoopNumbers {
  std::vector<std::vector<uint32_t>> args; // by step; of those that move, nothing
  std::vector<uint32_t> outputs;
};
LoopNumbers numbersOf(const RegionOutline &outline, const MoveAccess &access);

/// What the loop computes, without the steps that move.
RegionOutline withoutMoves(const RegionOutline &outline, const MoveAccess &access);

/// Fills `access`. False where the loop would compute an element twice, or cannot tell where one is; `why` says which
/// step.
bool findMoveAccess(const RegionOutline &outline, MoveAccess *access, std::string *why);

} // namespace opc
