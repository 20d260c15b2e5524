// From an index on each axis of a row-major array to an offset and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/data_type.h"

namespace oneflow {

/// N axes at most, with integers of type T. An array of fewer axes leaves the last strides at 1.
template <class T, int N> class NdIndexOffsetHelper {
public:
  template <class... Sizes> OF_DEVICE_FUNC explicit NdIndexOffsetHelper(T size, Sizes... sizes) {
    static_assert(sizeof...(sizes) < N, "more sizes than the helper has axes");
    const T all[] = {size, static_cast<T>(sizes)...};
    setStrides(all, 1 + static_cast<int>(sizeof...(sizes)));
  }
  OF_DEVICE_FUNC explicit NdIndexOffsetHelper(const T *sizes) { setStrides(sizes, N); }
  OF_DEVICE_FUNC NdIndexOffsetHelper(const T *sizes, int n) { setStrides(sizes, n); }

  OF_DEVICE_FUNC T NdIndexToOffset(const T *index) const { return NdIndexToOffset(index, N); }
  /// The first n indices; the others are 0.
  OF_DEVICE_FUNC T NdIndexToOffset(const T *index, int n) const {
    T offset = 0;
    for (int i = 0; i < n; ++i) offset += index[i] * strides_[i];
    return offset;
  }
  template <class... Indices> OF_DEVICE_FUNC T NdIndexToOffset(T index, Indices... indices) const {
    static_assert(sizeof...(indices) < N, "more indices than the helper has axes");
    const T all[] = {index, static_cast<T>(indices)...};
    return NdIndexToOffset(all, 1 + static_cast<int>(sizeof...(indices)));
  }

  OF_DEVICE_FUNC void OffsetToNdIndex(T offset, T *index) const { OffsetToNdIndex(offset, index, N); }
  /// The first n indices.
  OF_DEVICE_FUNC void OffsetToNdIndex(T offset, T *index, int n) const {
    for (int i = 0; i < n; ++i) {
      index[i] = offset / strides_[i];
      offset -= index[i] * strides_[i];
    }
  }
  template <class... Indices> OF_DEVICE_FUNC void OffsetToNdIndex(T offset, T &index, Indices &...indices) const {
    static_assert(sizeof...(indices) < N, "more indices than the helper has axes");
    T *const all[] = {&index, &indices...};
    for (int i = 0; i < 1 + static_cast<int>(sizeof...(indices)); ++i) {
      *all[i] = offset / strides_[i];
      offset -= *all[i] * strides_[i];
    }
  }
  OF_DEVICE_FUNC constexpr int Size() const { return N; }

private:
  OF_DEVICE_FUNC void setStrides(const T *sizes, int n) {
    for (int i = N - 1; i >= 0; --i) strides_[i] = i + 1 < n ? strides_[i + 1] * sizes[i + 1] : 1;
  }
  T strides_[N];
};

} // namespace oneflow
