// What a boxing step that adds nothing up does on one rank: copies within the rank, messages to others and from them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Communicator.h"

#include <vector>

namespace opc::runtime {

/// One bucket's moves. The bases of the blocks are not known yet: those of `from` and of sends are inputs, those of
/// `to` and of receives outputs of this rank, both by tensor.
struct BoxingMoves {
  struct Copy {
    size_t tensor = 0;
    CommBlock from, to;
  };
  struct Message {
    size_t tensor = 0;
    int64_t rank = 0; // of the job
    CommBlock block;
  };
  std::vector<Copy> copies;
  std::vector<Message> sends, receives; // in the order of the tensors, then of the ranks
  bool fillFirst = false;               // the outputs get the neutral value before the copies
  std::vector<int64_t> covered;         // by tensor: elements of the output that something comes to
};
BoxingMoves movesOf(const std::vector<BoxingOp> &ops, int64_t rank);

/// The ranks that a step goes on among where `rank` is one of them, ascending: those along its mesh dimension, or all
/// of both placements.
std::vector<int64_t> ranksOf(const BoxingOp &op, int64_t rank);

/// Of an all-gather: where each member's piece comes to in the output of `rank`; of a reduce-scatter: where each
/// member's addends are in its input. By member of ranksOf().
std::vector<CommBlock> piecesOf(const BoxingOp &op, int64_t rank, const std::vector<int64_t> &members);

} // namespace opc::runtime
