// What the random operators share: kernels that own a stream, and uniform numbers for the elements of a tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "source/RandomStream.h"
#include "support/Operator.h"

namespace opc::ops {

/// A kernel with a stream of random numbers.
class RandomKernel : public BindingKernel {
protected:
  /// For the bound task: gives the words of each run.
  auto draws(const OpContext *ctx) const {
    return [stream = &stream_, key = randomKey(ctx)] { return stream->next(key); };
  }

private:
  mutable RandomStream stream_;
};

/// The rule of the attribute rate.
inline Maybe<void> checkRate(const UserOpDefWrapper &, const UserOpConfWrapper &conf) {
  const float rate = conf.attr<float>("rate");
  if (!(rate >= 0 && rate <= 1))
    return (Error("OPC0205") << "rate is " << rate).help("rate is the probability of dropping, from 0 to 1");
  return Maybe<void>::Ok();
}

/// Uniform numbers in [0, 1) a block of four words: four of f32, or two of f64.
template <class F> constexpr int64_t kPerBlock = std::is_same_v<F, double> ? 2 : 4;
/// Those of the blocks that are made at a time.
template <class F> constexpr int64_t kPerBatch = kPerBlock<F> * RandomBlocks::kBatch;

/// The numbers of the blocks from `first` on.
template <class F> void drawBatch(const RandomBlocks &random, int64_t first, F *u) {
  constexpr int64_t batch = RandomBlocks::kBatch;
  uint32_t words[4][batch];
  random.batch(static_cast<uint64_t>(first), words);
  for (int64_t i = 0; i < batch; ++i)
    if constexpr (kPerBlock<F> == 2) {
      u[2 * i] = Philox::unitDouble(words[0][i], words[1][i]);
      u[2 * i + 1] = Philox::unitDouble(words[2][i], words[3][i]);
    } else {
      for (int64_t w = 0; w < 4; ++w) u[4 * i + w] = Philox::unitFloat(words[w][i]);
    }
}

/// Calls f(first element, count, uniforms) for pieces of a tensor of n elements, each a whole number of blocks.
template <class F, class Body> void forEachBlock(DeviceCtx *dev, int64_t n, const RandomBlocks &random, Body body) {
  constexpr int64_t piece = kPerBatch<F>;
  dev->parallelFor((n + piece - 1) / piece, 128, [&](int64_t b, int64_t e) {
    for (int64_t p = b; p < e; ++p) {
      F u[piece];
      drawBatch(random, p * RandomBlocks::kBatch, u);
      body(p * piece, std::min(piece, n - p * piece), u);
    }
  });
}

} // namespace opc::ops
