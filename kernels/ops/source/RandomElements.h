// What the random operators share: kernels that own a stream, and uniform numbers for the elements of a tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "source/RandomArguments.h"
#include "source/RandomStream.h"
#include "support/CudaTask.h"
#include "support/Operator.h"
#include "support/PieceRange.h"

namespace opc::ops {

/// A kernel with a stream of random numbers.
class RandomKernel : public BindingKernel {
protected:
  /// For the bound task: gives the words of each run.
  auto draws(const OpContext *ctx) const {
    return
        [stream = &stream_, key = randomKey(ctx)](const DeviceCtx *dev) { return stream->next(key, dev->position()); };
  }

  /// The task of device code that draws numbers for the elements of `arg`.
  std::unique_ptr<BoundKernel> bindOnGpu(KernelBindContext *ctx, const std::string &kernel, const char *arg,
                                         RandomArguments a) const;

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

/// This device's piece of a tensor as runs of neighbours in the whole: run i begins at element start(i) of the whole
/// and at element i * length of the piece.
struct PieceRuns {
  int64_t count = 1, length = 0;
  bool whole = true;
  DimVector sizes, strides; // of the axes before the run, outermost first
  int64_t offset = 0;

  PieceRuns(const KernelContext *ctx, const std::string &arg) {
    const Shape &piece = ctx->Desc(arg).shape(), &all = wholeShape(ctx, arg);
    int64_t last = piece.NumAxes() - 1;
    while (last >= 0 && piece.At(last) == all.At(last)) --last;
    whole = last < 0;
    length = piece.Count(std::max<int64_t>(0, last));
    for (int64_t a = 0; a < last; ++a) {
      sizes.push_back(piece.At(a));
      strides.push_back(all.Count(a + 1));
      count *= piece.At(a);
    }
    for (int64_t a = 0; a <= last; ++a) offset += ctx->ShardBegin(arg, 0, a) * all.Count(a + 1);
  }
  int64_t start(int64_t i) const {
    int64_t at = offset;
    for (size_t a = sizes.size(); a-- > 0; i /= sizes[a]) at += i % sizes[a] * strides[a];
    return at;
  }
};

inline std::unique_ptr<BoundKernel> RandomKernel::bindOnGpu(KernelBindContext *ctx, const std::string &kernel,
                                                            const char *arg, RandomArguments a) const {
  const PieceRuns runs(ctx, arg);
  a.n = runs.count * runs.length;
  a.length = runs.length;
  a.offset = runs.offset;
  a.isWhole = runs.whole;
  a.rank = static_cast<int32_t>(runs.sizes.size());
  std::copy(runs.sizes.begin(), runs.sizes.end(), a.sizes);
  std::copy(runs.strides.begin(), runs.strides.end(), a.strides);
  const cuda::CudaFunction f = cuda::CudaLaunch::of(ctx->device_ctx()).function(kernel);
  return bindTask([=, random = draws(ctx)](DeviceCtx *dev) {
    RandomArguments now = a;
    const RandomBlocks blocks = random(dev);
    now.key = blocks.key;
    now.stream = blocks.stream;
    if (now.n > 0) cuda::CudaLaunch::of(dev).run(f, cuda::blocksFor(now.n), {cuda::kBlock, 1, 1}, 0, now);
  });
}

/// Calls body(first element, count, uniforms) for parts of a piece, in parallel: each element gets the number that it
/// has in the whole, whatever device has it. `change(uniforms)` may make others of all numbers of a batch first.
template <class F, class Body, class Change>
void forEachBlock(DeviceCtx *dev, const PieceRuns &runs, const RandomBlocks &random, Body body, Change change) {
  constexpr int64_t per = kPerBlock<F>, batch = kPerBatch<F>;
  const auto part = [&](int64_t block, int64_t begin, int64_t end, int64_t to) { // elements of the whole
    F u[batch];
    drawBatch(random, block, u);
    change(u);
    const int64_t first = std::max(begin, block * per), stop = std::min(end, block * per + batch);
    body(to + first - begin, stop - first, u + (first - block * per));
  };
  if (runs.whole)
    return dev->parallelFor((runs.length + batch - 1) / batch, 128, [&](int64_t b, int64_t e) {
      for (int64_t p = b; p < e; ++p) part(p * RandomBlocks::kBatch, 0, runs.length, 0);
    });
  const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, runs.length));
  dev->parallelFor(runs.count, grain, [&](int64_t b, int64_t e) {
    for (int64_t r = b; r < e; ++r) {
      const int64_t begin = runs.start(r), end = begin + runs.length;
      for (int64_t block = begin / per; block * per < end; block += RandomBlocks::kBatch)
        part(block, begin, end, r * runs.length);
    }
  });
}
template <class F, class Body>
void forEachBlock(DeviceCtx *dev, const PieceRuns &runs, const RandomBlocks &random, Body body) {
  forEachBlock<F>(dev, runs, random, body, [](F *) {});
}

} // namespace opc::ops
