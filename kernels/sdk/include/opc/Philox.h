// Philox4x32-10, the counter-based random number generator of opc's random operators and initializers.
// J. Salmon, M. Moraes, R. Dror, D. Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define OPC_HOST_DEVICE __host__ __device__
#else
#define OPC_HOST_DEVICE
#endif

namespace opc {

/// A bijection of 128-bit counters, chosen by a 64-bit key: number i of a stream is a function of (key, i) alone, so that
/// any thread of any device can make any part of a stream, and all agree.
class Philox {
public:
  struct Block {
    uint32_t word[4];
  };

  OPC_HOST_DEVICE explicit Philox(uint64_t key, uint64_t stream = 0) : key_(key), stream_(stream) {}

  /// The four words at counter (index, stream): words 4*index to 4*index+3 of the stream.
  OPC_HOST_DEVICE Block operator()(uint64_t index) const {
    Block c{{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), static_cast<uint32_t>(stream_),
             static_cast<uint32_t>(stream_ >> 32)}};
    uint32_t k0 = static_cast<uint32_t>(key_), k1 = static_cast<uint32_t>(key_ >> 32);
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c.word[0], p1 = uint64_t{0xCD9E8D57u} * c.word[2];
      c = Block{{static_cast<uint32_t>(p1 >> 32) ^ c.word[1] ^ k0, static_cast<uint32_t>(p1),
                 static_cast<uint32_t>(p0 >> 32) ^ c.word[3] ^ k1, static_cast<uint32_t>(p0)}};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }

  /// A word as a number in [0, 1), a multiple of 2^-24.
  OPC_HOST_DEVICE static float uniform(uint32_t word) { return static_cast<float>(word >> 8) * 5.9604644775390625e-8f; }
  /// Two words as a number in [0, 1), a multiple of 2^-53.
  OPC_HOST_DEVICE static double uniform(uint32_t high, uint32_t low) {
    return static_cast<double>(((static_cast<uint64_t>(high) << 32) | low) >> 11) * 1.1102230246251565e-16;
  }

  /// A key from a seed and a name (FNV-1a of the name's bytes, mixed into the seed): operators that share a seed do not
  /// share their numbers.
  static uint64_t keyOf(int64_t seed, const char *name) {
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *p = name; *p; ++p) h = (h ^ static_cast<unsigned char>(*p)) * 0x100000001b3u;
    // SplitMix64's finaliser: every bit of seed and hash reaches every bit of the key.
    uint64_t z = static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15u + h;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

private:
  uint64_t key_, stream_;
};

} // namespace opc
