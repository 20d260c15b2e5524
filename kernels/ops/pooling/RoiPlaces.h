// Where the samples of a region's bins lie along an axis, on the host and in device code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/ScalarFloat.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace opc::ops {

/// How regions are cut along one axis of the images.
struct RoiAxis {
  int64_t size, bins; // of the image, of the result
  int64_t ratio;      // samples a bin; 0: as many as it is long
  double scale;
  int32_t isHalf, unused; // half_pixel
};

/// A sample between two neighbours: `part` of it is the upper one's.
template <class T> struct RoiSample {
  int64_t low, high;
  T part;
  bool isInside;
};

/// The bins of one region. In the order of operations of ONNX Runtime, in the tensors' type: at an edge, and where a
/// bin is a whole number of elements long, the last bit decides.
template <class T> struct RoiBins {
  T begin, window; // window: the length of a bin
  int64_t count, size;

  OPC_HOST_DEVICE RoiBins(const RoiAxis &a, T low, T high) : size(a.size) {
    const T scale = static_cast<T>(a.scale), shift = a.isHalf ? T(0.5) : T(0);
    begin = low * scale - shift;
    T length = high * scale - shift - begin;
    if (!a.isHalf && length < 1) length = 1;
    window = length / static_cast<T>(a.bins);
    const T wanted = std::ceil(window);
    constexpr int64_t most = int64_t{1} << 40;
    count = a.ratio > 0         ? a.ratio
            : wanted >= T(most) ? most
            : wanted == wanted  ? std::max<int64_t>(static_cast<int64_t>(wanted), 0)
                                : 1; // one that is NaN
  }
  /// The samples of a bin that can be inside, of very many.
  OPC_HOST_DEVICE int64_t firstSample(int64_t bin) const { return bound(bin, -1, -2, 0); }
  OPC_HOST_DEVICE int64_t endSample(int64_t bin) const { return bound(bin, static_cast<double>(size), 3, count); }

  OPC_HOST_DEVICE RoiSample<T> sample(int64_t bin, int64_t k) const {
    const T at = begin + static_cast<T>(bin) * window + (static_cast<T>(k) + T(0.5)) * window / static_cast<T>(count);
    if (at != at) return {0, 0, at, true};
    if (at < -1 || at > static_cast<T>(size)) return {0, 0, T(0), false};
    const T held = std::max(at, T(0));
    const int64_t low = static_cast<int64_t>(held);
    if (low >= size - 1) return {size - 1, size - 1, T(0), true};
    return {low, low + 1, held - static_cast<T>(low), true};
  }

private:
  OPC_HOST_DEVICE int64_t bound(int64_t bin, double edge, double margin, int64_t otherwise) const {
    const double step = static_cast<double>(window) / static_cast<double>(count);
    if (count <= 64 || !(step > 0)) return otherwise;
    const double start = static_cast<double>(begin) + static_cast<double>(bin) * static_cast<double>(window);
    const double k = std::floor((edge - start) / step) + margin;
    if (!(k > 0)) return k == k ? 0 : otherwise;
    return k < static_cast<double>(count) ? static_cast<int64_t>(k) : count;
  }
};

} // namespace opc::ops
