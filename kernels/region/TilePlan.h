// Where the elements of a region's inputs lie for a range of the loop's elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "MovedAccess.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace opc {

/// How an input of a region is read. All dimensions of the loop are seen as one, row by row.
class TileAccess {
public:
  enum class Kind {
    kWhole,  // element i of the loop is element i of the input
    kSingle, // one element for all
    kBroadcast,
    kMoved, // by an op: elements of other places
  };
  TileAccess(const Shape &input, const Shape &loop, size_t elementSize);

  explicit TileAccess(MovedAccess moved);

  Kind kind() const { return kind_; }
  /// Whether a tile's elements may have to be written to a buffer.
  bool needsBuffer() const { return kind_ == Kind::kBroadcast || kind_ == Kind::kMoved; }
  /// Of a broadcast input that is repeated as a whole, as biases of channels are: how many of the loop's elements until
  /// it begins anew; 0 of others.
  int64_t period() const;
  /// Of a moved input; `inputs` are where those of the region begin.
  const void *moved(const char *const *inputs, int64_t begin, int64_t n, char *buffer) const {
    return moved_->elements(inputs, begin, n, buffer);
  }
  /// Of a broadcast input: its elements for elements [begin, begin + n) of the loop: where they lie side by side, or
  /// `buffer`, which they have been written to. `isSingle`: the one element that all of them are, where they are.
  const void *elements(const char *data, int64_t begin, int64_t n, char *buffer, bool *isSingle) const;
  /// The same with one element repeated in `buffer`.
  const void *spread(const char *data, int64_t begin, int64_t n, char *buffer) const;

private:
  struct Dim {
    int64_t size, stride; // stride in elements; 0: repeated
  };
  int64_t offsetOf(int64_t row) const;
  void copyRow(const char *from, int64_t n, char *to) const;

  Kind kind_;
  size_t elementSize_;
  std::vector<Dim> outer_; // outermost first
  Dim inner_{1, 0};
  std::shared_ptr<const MovedAccess> moved_;
};

} // namespace opc
