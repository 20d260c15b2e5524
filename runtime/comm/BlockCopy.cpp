// Copies between strided blocks of two tensors.
// SPDX-License-Identifier: Apache-2.0
#include "BlockCopy.h"

#include <algorithm>
#include <cstring>

namespace opc::runtime {

BlockRuns::BlockRuns(const CommBlock &block) {
  const int rank = static_cast<int>(block.box.size.size());
  int64_t stride = static_cast<int64_t>(block.elementSize); // bytes from one index of the axis to the next
  int64_t run = stride;
  bool inRun = true; // all axes further in are taken whole
  for (int axis = rank - 1; axis >= 0; --axis) {
    const size_t a = static_cast<size_t>(axis);
    const int64_t size = block.box.size[a];
    offset_ += block.box.begin[a] * stride;
    if (inRun) {
      run *= size;
      inRun = size == block.extent[a];
    } else if (size != 1) {
      // An axis joins the one inside when that one is taken whole.
      const size_t last = static_cast<size_t>(rank_ - 1);
      if (rank_ > 0 && step_[last] * size_[last] == stride) {
        size_[last] *= size;
      } else {
        size_[static_cast<size_t>(rank_)] = size;
        step_[static_cast<size_t>(rank_)] = stride;
        ++rank_;
      }
      runs_ *= size;
    }
    stride *= block.extent[a];
  }
  if (run == 0 || runs_ == 0) runs_ = 0;
  runBytes_ = static_cast<size_t>(run);
  if (block.base) at_ = static_cast<char *>(block.base) + offset_;
}

void BlockRuns::next() {
  for (int a = 0; a < rank_; ++a) {
    const size_t axis = static_cast<size_t>(a);
    at_ += step_[axis];
    if (++index_[axis] < size_[axis]) return;
    at_ -= step_[axis] * size_[axis];
    index_[axis] = 0;
  }
}

namespace {
/// Runs of one size on both sides. A fixed size makes of memcpy one load and one store.
template <size_t kBytes> void copyRuns(BlockRuns &from, BlockRuns &to) {
  const size_t bytes = kBytes ? kBytes : from.runBytes();
  for (int64_t i = 0, n = from.runs(); i < n; ++i, from.next(), to.next())
    std::memcpy(to.current(), from.current(), kBytes ? kBytes : bytes);
}
} // namespace

void copyBlock(const CommBlock &from, const CommBlock &to) {
  BlockRuns source(from), target(to);
  if (source.runs() == 0 || target.runs() == 0) return;
  if (source.runBytes() == target.runBytes()) {
    switch (source.runBytes()) {
    case 2: return copyRuns<2>(source, target);
    case 4: return copyRuns<4>(source, target);
    case 8: return copyRuns<8>(source, target);
    case 16: return copyRuns<16>(source, target);
    default: return copyRuns<0>(source, target);
    }
  }
  size_t left = static_cast<size_t>(from.bytes()), inSource = source.runBytes(), inTarget = target.runBytes();
  char *read = source.current(), *write = target.current();
  while (left > 0) {
    const size_t n = std::min(inSource, inTarget);
    std::memcpy(write, read, n);
    left -= n, read += n, write += n, inSource -= n, inTarget -= n;
    if (inSource == 0) source.next(), read = source.current(), inSource = source.runBytes();
    if (inTarget == 0) target.next(), write = target.current(), inTarget = target.runBytes();
  }
}

} // namespace opc::runtime
