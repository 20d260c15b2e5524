// Merging of axes and cutting of long reductions.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReducePlan.h"

#include <algorithm>

namespace opc::ops {

ReducePlan ReducePlan::make(const Shape &shape, const std::vector<int64_t> &axes) {
  struct Merged {
    int64_t size, stride;
    bool isReduced;
  };
  std::vector<Merged> dims;
  int64_t stride = 1;
  for (int64_t a = shape.NumAxes() - 1; a >= 0; --a) { // innermost first
    const int64_t n = shape.At(a);
    const bool isReduced = std::binary_search(axes.begin(), axes.end(), a);
    if (n != 1) {
      if (!dims.empty() && dims.back().isReduced == isReduced)
        dims.back().size *= n;
      else
        dims.push_back({n, stride, isReduced});
    }
    stride *= n;
  }
  ReducePlan p;
  size_t first = 0;
  if (!dims.empty()) {
    p.rows = dims[0].isReduced;
    p.inner = dims[0].size;
    first = 1;
  }
  for (size_t k = dims.size(); k-- > first;)
    (dims[k].isReduced ? p.reduced : p.kept).push_back({dims[k].size, dims[k].stride});
  for (const ReduceDim &d : p.kept) p.keptCount *= d.size;
  for (const ReduceDim &d : p.reduced) p.segments *= d.size;
  p.outputs = p.rows ? p.keptCount : p.keptCount * p.inner;
  p.reduceCount = p.rows ? p.segments * p.inner : p.segments;
  if (p.outputs == 0 || p.reduceCount == 0) return p;

  // Few outputs and a long reduction: cut it into chunks of about 64 Ki elements.
  p.unitsPerSegment = p.rows ? (p.inner + kBlock - 1) / kBlock : 1;
  const int64_t units = p.segments * p.unitsPerSegment;
  const int64_t unitElements = p.rows ? std::min(p.inner, kBlock) : std::min(p.inner, kColumns);
  const int64_t jobs = p.rows ? p.keptCount : p.keptCount * ((p.inner + kColumns - 1) / kColumns);
  p.chunkUnits = units;
  if (jobs < 16 && units * unitElements > (1 << 17)) {
    p.chunkUnits = std::max<int64_t>(1, (1 << 16) / unitElements);
    // A bound on the partial results: at most 256 chunks.
    p.chunkUnits = std::max(p.chunkUnits, (units + 255) / 256);
    p.chunks = (units + p.chunkUnits - 1) / p.chunkUnits;
  }
  return p;
}

} // namespace opc::ops
