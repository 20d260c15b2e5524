// What the random kernels share: the key of an op, and a stream for each step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Philox.h"
#include "support/Operator.h"

namespace opc::ops {

/// One stream of random words, four at an index.
struct RandomBlocks {
  uint64_t key, stream;
  Philox::Block operator()(uint64_t index) const { return Philox::at(key, stream, index); }

  /// The blocks first to first + kBatch - 1, word by word: out[w][i] is word w of block first + i. The same words as
  /// operator(), in a form that compilers turn into vector instructions.
  static constexpr int kBatch = 16;
  void batch(uint64_t first, uint32_t out[4][kBatch]) const {
    for (int i = 0; i < kBatch; ++i) {
      out[0][i] = static_cast<uint32_t>(first + static_cast<uint64_t>(i));
      out[1][i] = static_cast<uint32_t>((first + static_cast<uint64_t>(i)) >> 32);
      out[2][i] = static_cast<uint32_t>(stream);
      out[3][i] = static_cast<uint32_t>(stream >> 32);
    }
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
      for (int i = 0; i < kBatch; ++i) {
        const uint64_t p0 = uint64_t{0xD2511F53u} * out[0][i], p1 = uint64_t{0xCD9E8D57u} * out[2][i];
        out[0][i] = static_cast<uint32_t>(p1 >> 32) ^ out[1][i] ^ k0;
        out[2][i] = static_cast<uint32_t>(p0 >> 32) ^ out[3][i] ^ k1;
        out[1][i] = static_cast<uint32_t>(p1);
        out[3][i] = static_cast<uint32_t>(p0);
      }
  }
};

/// The random numbers of one op: step k of a session (0, 1, ...) reads stream k of the key, so that steps differ,
/// sessions repeat, and one that goes on from step k draws what it would have drawn. The session's seed is part of the
/// key; seed 0 changes nothing. Outside of a session the op's runs are counted.
class RandomStream {
public:
  /// The words of this run.
  RandomBlocks next(uint64_t key, const RunPosition &at) {
    if (at.step < 0) return {key, run_++};
    return of(key, at);
  }
  /// Those of a step.
  static RandomBlocks of(uint64_t key, const RunPosition &at) {
    uint64_t z = at.seed * 0x9e3779b97f4a7c15u; // SplitMix64's finaliser: 0 for 0
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return {key ^ z ^ (z >> 31), static_cast<uint64_t>(at.step)};
  }

private:
  uint64_t run_ = 0;
};

/// The key of an op: its seed and its name (FNV-1a of the bytes), mixed by SplitMix64's finaliser, so that operators
/// that share a seed do not share their numbers.
inline uint64_t randomKey(const OpContext *ctx) {
  uint64_t h = 0xcbf29ce484222325u;
  for (char c : ctx->op_name()) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  uint64_t z = static_cast<uint64_t>(ctx->Attr<int64_t>("seed")) * 0x9e3779b97f4a7c15u + h;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

} // namespace opc::ops
