// RandomGenerator: uniform numbers from a seed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/data_type.h"

namespace oneflow {

template <DeviceType device> class RandomGenerator {
public:
  static_assert(device == DeviceType::kCPU, "RandomGenerator draws on the CPU: GPU kernels call cuRAND");
  OF_DISALLOW_COPY_AND_MOVE(RandomGenerator);
  RandomGenerator(int64_t seed, DeviceCtx *) : generator_(static_cast<uint32_t>(seed)) {}

  /// n numbers of [0, 1).
  template <class T> void Uniform(int64_t n, T *out) { Uniform(n, T(0), T(1), out); }
  /// n numbers of [min, max); integers of [min, max].
  template <class T> void Uniform(int64_t n, T min, T max, T *out) {
    CHECK_LE(min, max);
    std::conditional_t<std::is_floating_point_v<T>, std::uniform_real_distribution<T>,
                       std::uniform_int_distribution<Wide<T>>>
        uniform(min, max);
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(uniform(generator_));
  }

private:
  /// The standard's distribution has no 8-bit integers.
  template <class T> using Wide = std::conditional_t<std::is_floating_point_v<T> || sizeof(T) == 1, int32_t, T>;
  std::mt19937 generator_;
};

} // namespace oneflow
