// Philox4x32-10: the counter-based random number generator behind every random number of opc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace opc {

/// Philox4x32 with 10 rounds. Source: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as
/// 1, 2, 3", SC 2011, doi:10.1145/2063384.2063405. A pure function of key and counter: any element can be drawn alone,
/// in any order, on any device, and is the same everywhere.
struct Philox {
  using Block = std::array<uint32_t, 4>;

  /// Four random words for a 128-bit counter (least significant word first) under a 64-bit key.
  static constexpr Block generate(Block counter, std::array<uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * counter[0], p1 = uint64_t{0xCD9E8D57u} * counter[2];
      counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
                 static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
      key[0] += 0x9E3779B9u;
      key[1] += 0xBB67AE85u;
    }
    return counter;
  }

  /// The block of number `index` in stream `stream` of seed `seed`. opc gives every tensor a stream of its own.
  static constexpr Block at(uint64_t seed, uint64_t stream, uint64_t index) {
    return generate({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(stream),
                     static_cast<uint32_t>(stream >> 32)},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  }

  /// Uniform in [0, 1): the upper 24 bits of a word, exact in f32.
  static constexpr float unitFloat(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
  /// Uniform in [0, 1): 53 bits of two words, exact in f64.
  static constexpr double unitDouble(uint32_t high, uint32_t low) {
    return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
  }
};

} // namespace opc
