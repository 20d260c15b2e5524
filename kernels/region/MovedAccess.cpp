// Rows of boxes, copied piece by piece.
// SPDX-License-Identifier: Apache-2.0
#include "MovedAccess.h"

#include <algorithm>
#include <cstring>

namespace opc {
namespace {

constexpr size_t kMostDims = 16;
using Four = uint32_t __attribute__((vector_size(16)));

/// to[r * n + i] = from[i * stride + r], for four r and four i.
void turnFour(const uint32_t *from, int64_t stride, uint32_t *to, int64_t n) {
  Four a[4];
  for (int64_t i = 0; i < 4; ++i) std::memcpy(&a[i], from + i * stride, sizeof a[i]);
  const Four low0 = __builtin_shufflevector(a[0], a[1], 0, 4, 1, 5),
             low1 = __builtin_shufflevector(a[2], a[3], 0, 4, 1, 5);
  const Four up0 = __builtin_shufflevector(a[0], a[1], 2, 6, 3, 7),
             up1 = __builtin_shufflevector(a[2], a[3], 2, 6, 3, 7);
  const Four rows[4] = {__builtin_shufflevector(low0, low1, 0, 1, 4, 5),
                        __builtin_shufflevector(low0, low1, 2, 3, 6, 7), __builtin_shufflevector(up0, up1, 0, 1, 4, 5),
                        __builtin_shufflevector(up0, up1, 2, 3, 6, 7)};
  for (int64_t r = 0; r < 4; ++r) std::memcpy(to + r * n, &rows[r], sizeof rows[r]);
}

/// to[r * n + i] = from[i * stride + r], for all i below n.
template <class T> void turn(const char *source, int64_t stride, int64_t rows, int64_t n, char *target) {
  const T *from = reinterpret_cast<const T *>(source);
  T *to = reinterpret_cast<T *>(target);
  int64_t firstRest = 0; // of the columns
  if constexpr (sizeof(T) == sizeof(uint32_t)) {
    firstRest = n / 4 * 4;
    const int64_t whole = rows / 4 * 4;
    for (int64_t i = 0; i < firstRest; i += 4) {
      for (int64_t r = 0; r < whole; r += 4) turnFour(from + i * stride + r, stride, to + r * n + i, n);
      for (int64_t k = i; k < i + 4; ++k)
        for (int64_t r = whole; r < rows; ++r) to[r * n + k] = from[k * stride + r];
    }
  }
  for (int64_t i = firstRest; i < n; ++i)
    for (int64_t r = 0; r < rows; ++r) to[r * n + i] = from[i * stride + r];
}

} // namespace

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
  areJoined_ = areRowsJoined();
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

bool MovedAccess::areRowsJoined() const {
  return isCovered_ && dims_.size() == 2 && std::all_of(sources_.begin(), sources_.end(), [&](const Source &s) {
           return s.dims[0].begin == 0 && s.dims[0].size == dims_[0] && s.dims[1].stride == 1;
         });
}

/// Source by source: what is read lies side by side, what is written is in the first cache.
void MovedAccess::copyJoined(const char *const *inputs, int64_t row, int64_t rows, char *to) const {
  const auto size = static_cast<int64_t>(elementSize_);
  const int64_t toStride = dims_[1] * size;
  for (const Source &s : sources_) {
    const int64_t fromStride = s.dims[0].stride * size;
    const char *from = inputs[s.input] + (s.offset + s.dims[1].begin) * size + row * fromStride;
    char *at = to + s.dims[1].begin * size;
    const auto copyAll = [&](auto bytes) { // a constant where it is one of those that channels often have
      for (int64_t r = 0; r < rows; ++r) std::memcpy(at + r * toStride, from + r * fromStride, bytes);
    };
    const auto bytes = static_cast<size_t>(s.dims[1].size * size);
    switch (bytes) {
    case 64: copyAll(std::integral_constant<size_t, 64>()); break;
    case 128: copyAll(std::integral_constant<size_t, 128>()); break;
    case 256: copyAll(std::integral_constant<size_t, 256>()); break;
    default: copyAll(bytes);
    }
  }
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

/// Of one source that has everything: from row to row the indices are counted on.
const void *MovedAccess::ofOne(const char *const *inputs, int64_t begin, int64_t n, char *buffer) const {
  const auto size = static_cast<int64_t>(elementSize_);
  const Source &s = sources_[0];
  const size_t outer = dims_.size() - 1;
  const int64_t inner = dims_.back(), stride = s.dims.back().stride;
  const char *data = inputs[s.input];
  int64_t index[kMostDims], row = begin / inner, at = begin % inner, offset = 0;
  const auto find = [&] {
    int64_t rest = row;
    offset = s.offset;
    for (size_t d = outer; d-- > 0;) {
      index[d] = rest % dims_[d];
      rest /= dims_[d];
      offset += index[d] * s.dims[d].stride;
    }
  };
  find();
  for (int64_t done = 0; done < n; at = 0) {
    char *to = buffer + done * size;
    if (at == 0)
      if (const int64_t rows = copyColumns(inputs, row, (n - done) / inner, to); rows > 0) {
        done += rows * inner;
        row += rows;
        find();
        continue;
      }
    const int64_t count = std::min(inner - at, n - done);
    const char *from = data + (offset + at * stride) * size;
    if (count == n && stride == 1) return from;
    copy(from, stride, count, to);
    done += count;
    ++row;
    for (size_t d = outer; d-- > 0;) {
      offset += s.dims[d].stride;
      if (++index[d] < dims_[d]) break;
      offset -= s.dims[d].stride * dims_[d];
      index[d] = 0;
    }
  }
  return buffer;
}

const void *MovedAccess::elements(const char *const *inputs, int64_t begin, int64_t n, char *buffer) const {
  if (sources_.size() == 1 && isCovered_ && dims_.size() <= kMostDims) return ofOne(inputs, begin, n, buffer);
  const auto size = static_cast<int64_t>(elementSize_);
  const int64_t inner = dims_.back();
  int64_t row = begin / inner, at = begin % inner;
  for (int64_t done = 0; done < n; ++row, at = 0) {
    char *to = buffer + done * size;
    if (const int64_t rows = areJoined_ && at == 0 ? (n - done) / inner : 0; rows > 1) {
      copyJoined(inputs, row, rows, to);
      done += rows * inner;
      row += rows - 1;
      continue;
    }
    const int64_t count = std::min(inner - at, n - done);
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

int64_t MovedAccess::copyColumns(const char *const *inputs, int64_t row, int64_t rows, char *to) const {
  const size_t rank = dims_.size();
  if (rank < 2) return 0;
  const Source &s = sources_[0];
  if (s.dims[rank - 2].stride != 1 || s.dims[rank - 1].stride <= 1) return 0;
  rows = std::min(rows, dims_[rank - 2] - row % dims_[rank - 2]);
  if (rows < 4) return 0;
  int64_t offset = s.offset, rest = row;
  for (size_t d = rank - 1; d-- > 0;) {
    offset += rest % dims_[d] * s.dims[d].stride;
    rest /= dims_[d];
  }
  const char *from = inputs[s.input] + offset * static_cast<int64_t>(elementSize_);
  const int64_t stride = s.dims[rank - 1].stride, n = dims_[rank - 1];
  switch (elementSize_) {
  case 1: turn<uint8_t>(from, stride, rows, n, to); break;
  case 2: turn<uint16_t>(from, stride, rows, n, to); break;
  case 4: turn<uint32_t>(from, stride, rows, n, to); break;
  default: turn<uint64_t>(from, stride, rows, n, to);
  }
  return rows;
}

void MovedAccess::copyFill(int64_t n, char *to) const {
  for (int64_t i = 0; i < n; ++i) std::memcpy(to + static_cast<size_t>(i) * elementSize_, &fill_, elementSize_);
}

} // namespace opc
