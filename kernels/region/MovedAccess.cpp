// Rows of boxes, copied piece by piece.
// SPDX-License-Identifier: Apache-2.0
#include "MovedAccess.h"

#include <algorithm>
#include <cstring>

namespace opc {

MovedAccess::MovedAccess(const Shape &shape, const std::vector<MovedSource> &sources, uint64_t fill, size_t elementSize)
    : elementSize_(elementSize), fill_(fill) {
  int64_t covered = 0;
  for (const MovedSource &s : sources) {
    sources_.push_back({s.input, s.offset, {}});
    int64_t elements = 1;
    for (int64_t n : s.size) elements *= n;
    covered += elements;
  }
  isCovered_ = covered == shape.elem_cnt();
  for (int64_t axis = 0; axis < shape.NumAxes(); ++axis) {
    if (shape.At(axis) == 1) continue; // index 0 alone
    const auto a = static_cast<size_t>(axis);
    dims_.push_back(shape.At(axis));
    for (size_t s = 0; s < sources.size(); ++s)
      sources_[s].dims.push_back({sources[s].begin[a], sources[s].size[a], sources[s].strides[a]});
  }
  if (dims_.empty()) {
    dims_.push_back(1);
    for (Source &s : sources_) s.dims.push_back({0, 1, 0});
  }
  for (size_t d = dims_.size() - 1; d-- > 0;) merge(d);
}

/// Makes one dimension of two where all sources lie that way.
bool MovedAccess::merge(size_t d) {
  for (const Source &s : sources_)
    if (s.dims[d + 1].begin != 0 || s.dims[d + 1].size != dims_[d + 1] ||
        s.dims[d].stride != s.dims[d + 1].stride * dims_[d + 1])
      return false;
  for (Source &s : sources_) {
    const Span inner = s.dims[d + 1];
    s.dims[d] = {s.dims[d].begin * inner.size, s.dims[d].size * inner.size, inner.stride};
    s.dims.erase(s.dims.begin() + static_cast<ptrdiff_t>(d) + 1);
  }
  dims_[d] *= dims_[d + 1];
  dims_.erase(dims_.begin() + static_cast<ptrdiff_t>(d) + 1);
  return true;
}

void MovedAccess::copy(const char *from, int64_t stride, int64_t n, char *to) const {
  const auto size = static_cast<int64_t>(elementSize_);
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n * size));
    return;
  }
  const auto each = [&](auto value) {
    constexpr auto bytes = static_cast<int64_t>(sizeof value);
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(&value, from + i * stride * bytes, sizeof value);
      std::memcpy(to + i * bytes, &value, sizeof value);
    }
  };
  switch (elementSize_) {
  case 1: return each(uint8_t{});
  case 2: return each(uint16_t{});
  case 4: return each(uint32_t{});
  default: return each(uint64_t{});
  }
}

const void *MovedAccess::elements(const char *const *inputs, int64_t begin, int64_t n, char *buffer) const {
  const auto size = static_cast<int64_t>(elementSize_);
  const int64_t inner = dims_.back();
  int64_t row = begin / inner, at = begin % inner;
  for (int64_t done = 0; done < n; ++row, at = 0) {
    const int64_t count = std::min(inner - at, n - done);
    char *to = buffer + done * size;
    if (!isCovered_) copyFill(count, to);
    for (const Source &s : sources_) {
      int64_t offset = s.offset, rest = row;
      bool isHere = true;
      for (size_t d = dims_.size() - 1; d-- > 0 && isHere;) {
        const int64_t index = rest % dims_[d];
        rest /= dims_[d];
        isHere = index >= s.dims[d].begin && index - s.dims[d].begin < s.dims[d].size;
        offset += index * s.dims[d].stride;
      }
      const Span &last = s.dims.back();
      const int64_t first = std::max(at, last.begin), end = std::min(at + count, last.begin + last.size);
      if (!isHere || first >= end) continue;
      const char *from = inputs[s.input] + (offset + first * last.stride) * size;
      if (end - first == n && last.stride == 1) return from;
      copy(from, last.stride, end - first, to + (first - at) * size);
    }
    done += count;
  }
  return buffer;
}

void MovedAccess::copyFill(int64_t n, char *to) const {
  for (int64_t i = 0; i < n; ++i) std::memcpy(to + static_cast<size_t>(i) * elementSize_, &fill_, elementSize_);
}

} // namespace opc
