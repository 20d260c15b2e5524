// Kernels that only move elements: what joins several ops into one loop reads through them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

#include <cstdint>
#include <vector>

namespace opc::user_op {

/// An index on an axis of an input: begin + step * (the output's index on `axis`), or begin alone where axis is -1.
struct AxisRead {
  int64_t axis = -1, begin = 0, step = 0;
  bool operator==(const AxisRead &o) const { return axis == o.axis && begin == o.begin && step == o.step; }
};

/// Elements of an output, a box of it, that are those of one input.
struct MovedBox {
  uint32_t input = 0;          // of the op
  DimVector begin, size;       // by axis of the output
  std::vector<AxisRead> reads; // by axis of the input; an output's index counts from its own beginning
};

/// Where every element of an output comes from: of one of the boxes, which have nothing in common, or it is `fill`.
struct MoveMap {
  std::vector<MovedBox> boxes;
  uint64_t fill = 0; // the bytes of an element
};

/// An OpKernel that has such a map: its one output has elements of its inputs, at other places.
class MovingKernel {
public:
  virtual ~MovingKernel() = default;
  /// Leaves `map` without boxes where this op instance has none. Needs attributes and descriptors, and no tensors.
  virtual Status MakeMap(const KernelContext &ctx, MoveMap *map) const = 0;
};

} // namespace opc::user_op
