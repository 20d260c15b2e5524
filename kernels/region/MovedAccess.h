// Elements that ops have moved, for a range of the loop's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "MoveAccess.h"

namespace opc {

/// Boxes of several tensors, seen as one tensor whose elements come row by row.
class MovedAccess {
public:
  MovedAccess(const Shape &shape, const std::vector<MovedSource> &sources, uint64_t fill, size_t elementSize);

  /// Elements [begin, begin + n): where they lie side by side, or `buffer`, which they have been written to. inputs[i]
  /// is where input i of the region begins.
  const void *elements(const char *const *inputs, int64_t begin, int64_t n, char *buffer) const;

private:
  struct Span {
    int64_t begin, size, stride;
  };
  struct Source {
    uint32_t input;
    int64_t offset;
    std::vector<Span> dims; // outermost first
  };
  bool merge(size_t dim);
  const void *ofOne(const char *const *inputs, int64_t begin, int64_t n, char *buffer) const;
  /// How many rows have been copied at once: none, or those whose elements lie side by side where rows are columns.
  int64_t copyColumns(const char *const *inputs, int64_t row, int64_t rows, char *to) const;
  /// Whether rows are rows of all sources, one beside the other; copies whole ones of them.
  bool areRowsJoined() const;
  void copyJoined(const char *const *inputs, int64_t row, int64_t rows, char *to) const;
  void copyFill(int64_t n, char *to) const;
  void copy(const char *from, int64_t stride, int64_t n, char *to) const;

  size_t elementSize_;
  uint64_t fill_;
  bool isCovered_, areJoined_ = false;
  std::vector<int64_t> dims_; // outermost first; one at least
  std::vector<Source> sources_;
};

} // namespace opc
