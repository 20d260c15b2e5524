// Where the elements of a region's inputs lie.
// SPDX-License-Identifier: Apache-2.0
#include "TilePlan.h"
#include "opc/BroadcastDims.h"

#include <algorithm>
#include <cstring>

namespace opc {

TileAccess::TileAccess(const Shape &input, const Shape &loop, size_t elementSize) : elementSize_(elementSize) {
  std::vector<Dim> dims; // innermost first
  for (const BroadcastDim &d : broadcastDims(loop, {input})) dims.push_back({d.size, d.strides[0]});
  if (input.elem_cnt() == loop.elem_cnt()) {
    kind_ = Kind::kWhole;
  } else if (input.elem_cnt() == 1) {
    kind_ = Kind::kSingle;
  } else {
    kind_ = Kind::kBroadcast;
    inner_ = dims.front();
    outer_.assign(dims.rbegin(), dims.rend() - 1);
  }
}

TileAccess::TileAccess(MovedAccess moved)
    : kind_(Kind::kMoved), elementSize_(0), moved_(std::make_shared<const MovedAccess>(std::move(moved))) {}

int64_t TileAccess::period() const {
  if (kind_ != Kind::kBroadcast) return 0;
  int64_t elements = inner_.size, period = inner_.stride == 0 ? 0 : elements;
  for (size_t d = outer_.size(); d-- > 0;) {
    elements *= outer_[d].size;
    if (outer_[d].stride != 0) period = elements;
  }
  return period;
}

int64_t TileAccess::offsetOf(int64_t row) const {
  int64_t offset = 0;
  for (size_t d = outer_.size(); d-- > 0;) {
    offset += row % outer_[d].size * outer_[d].stride;
    row /= outer_[d].size;
  }
  return offset;
}

void TileAccess::copyRow(const char *from, int64_t n, char *to) const {
  const auto bytes = static_cast<size_t>(n) * elementSize_;
  if (inner_.stride != 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  auto fill = [&](auto value) {
    std::memcpy(&value, from, sizeof value);
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + static_cast<size_t>(i) * sizeof value, &value, sizeof value);
  };
  switch (elementSize_) {
  case 1: std::memset(to, static_cast<unsigned char>(*from), bytes); return;
  case 2: fill(uint16_t{}); return;
  case 4: fill(uint32_t{}); return;
  default: fill(uint64_t{}); return;
  }
}

const void *TileAccess::elements(const char *data, int64_t begin, int64_t n, char *buffer, bool *isSingle) const {
  const auto size = static_cast<int64_t>(elementSize_);
  int64_t row = begin / inner_.size, at = begin % inner_.size;
  *isSingle = false;
  if (at + n <= inner_.size) {
    *isSingle = inner_.stride == 0;
    return data + (offsetOf(row) + at * inner_.stride) * size;
  }
  for (int64_t done = 0; done < n; ++row) {
    const int64_t count = std::min(inner_.size - at, n - done);
    copyRow(data + (offsetOf(row) + at * inner_.stride) * size, count, buffer + done * size);
    done += count;
    at = 0;
  }
  return buffer;
}

const void *TileAccess::spread(const char *data, int64_t begin, int64_t n, char *buffer) const {
  bool isSingle = false;
  const void *found = elements(data, begin, n, buffer, &isSingle);
  if (!isSingle) return found;
  copyRow(static_cast<const char *>(found), n, buffer);
  return buffer;
}

} // namespace opc
