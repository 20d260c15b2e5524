// The launches of a recurrent layer on a GPU: products and kernels over the state, one after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recurrent/RecurrentArguments.h"
#include "recurrent/RecurrentLane.h"
#include "support/CudaTask.h"
#include "support/IndexWatch.h"

#include <limits>

namespace opc::ops {

/// A tensor's memory; null where it is left out.
inline const void *givenInput(KernelBindContext *ctx, const char *arg) {
  return ctx->Has(arg) ? ctx->In(arg).raw_dptr() : nullptr;
}
inline void *askedOutput(KernelBindContext *ctx, const char *arg) {
  return ctx->Has(arg) ? ctx->Out(arg).mut_raw_dptr() : nullptr;
}

inline RecurrentLayer recurrentLayer(KernelBindContext *ctx, const RecurrentShape &r) {
  RecurrentLayer a{};
  a.steps = r.steps, a.batch = r.batch, a.hidden = r.hidden, a.directions = r.directions, a.columns = r.columns();
  a.batchFirst = r.batchFirst, a.reversed = r.reversed, a.coupled = r.coupled, a.late = r.late;
  a.clip = r.clip > 0 ? r.clip : std::numeric_limits<double>::infinity();
  const size_t functions = r.functions.size() / static_cast<size_t>(r.directions);
  for (int64_t d = 0; d < r.directions; ++d)
    for (size_t k = 0; k < functions; ++k) a.functions[d][k] = r.function(d, k);
  a.bias = givenInput(ctx, "bias");
  a.peephole = givenInput(ctx, "peephole");
  a.lengths = givenInput(ctx, "lengths");
  if (!a.lengths) return a;
  a.wideLengths = ctx->In("lengths").data_type() == kInt64;
  a.fault = watchIndices(ctx, "lengths", ctx->In("lengths").shape(), r.steps + 1, "the steps of x and 0");
  return a;
}

/// A matrix of each direction: of x's type in a tensor, or of the compute type in temporary memory.
struct DirectionMatrix {
  const void *at;
  int64_t row, step; // elements between rows, and between directions
  bool isStored;
};

/// Launches of one kernel, of which some are told the step.
using RecurrentLaunch = std::function<void(cuda::CudaLaunch &, int64_t step)>;

/// What is launched before, for each step, and behind the steps.
struct RecurrentSequence {
  std::vector<RecurrentLaunch> first, step, last;

  std::unique_ptr<BoundKernel> bind(int64_t steps, bool isBackward) const {
    return bindTask([all = *this, steps, isBackward](DeviceCtx *ctx) {
      cuda::CudaLaunch &dev = cuda::CudaLaunch::of(ctx);
      for (const RecurrentLaunch &f : all.first) f(dev, 0);
      for (int64_t s = 0; s < steps; ++s)
        for (const RecurrentLaunch &f : all.step) f(dev, isBackward ? steps - 1 - s : s);
      for (const RecurrentLaunch &f : all.last) f(dev, 0);
    });
  }
};

/// Makes the launches of one op. Temporary memory is taken piece by piece.
class RecurrentLaunches {
public:
  explicit RecurrentLaunches(KernelBindContext *ctx)
      : ctx_(ctx), type_(ctx->In("x").data_type()), size_(type_ == kDouble ? sizeof(double) : sizeof(float)),
        pieces_(ctx->Tmp<char>()) {}

  void *take(int64_t count) { return pieces_.take(count * static_cast<int64_t>(size_)); }
  /// The same matrix from element `first` on.
  DirectionMatrix from(DirectionMatrix m, int64_t first) const {
    const size_t size = m.isStored ? static_cast<size_t>(GetSizeOfDataType(type_)) : size_;
    m.at = static_cast<const char *>(m.at) + first * static_cast<int64_t>(size);
    return m;
  }

  /// out [m, n] = a b for each of `batches` directions; of `parts` directions the products add up.
  struct ProductSizes {
    int64_t m, n, k;
    bool transA = false, transB = false, add = false; // a is [k, m], b is [n, k], out += a b
    int64_t batches = 1, parts = 1;
  };
  cuda::CudaFunction function(const std::string &name) const {
    return cuda::CudaLaunch::of(ctx_->device_ctx()).function(kernelOf(name, type_));
  }
  RecurrentLaunch product(const ProductSizes &s, const DirectionMatrix &a, const DirectionMatrix &b,
                          const DirectionMatrix &out) const {
    const bool sums = s.parts > 1;
    const RecurrentProduct p{.a = a.at,
                             .b = b.at,
                             .out = const_cast<void *>(out.at),
                             .m = s.m,
                             .n = s.n,
                             .k = s.k,
                             .batches = s.batches,
                             .parts = s.parts,
                             .rowA = a.row,
                             .rowB = b.row,
                             .rowOut = out.row,
                             .stepA = sums ? 0 : a.step,
                             .stepB = sums ? 0 : b.step,
                             .stepOut = sums ? 0 : out.step,
                             .partA = a.step,
                             .partB = b.step,
                             .transA = s.transA,
                             .transB = s.transB,
                             .add = s.add,
                             .storedA = a.isStored,
                             .storedB = b.isStored,
                             .storedOut = out.isStored};
    const auto tiles = [](int64_t n, int64_t limit) {
      return static_cast<uint32_t>(std::clamp<int64_t>((n + 15) / 16, 1, limit));
    };
    const cuda::Dim3 grid{tiles(p.n, INT32_MAX), tiles(p.m, 65535), static_cast<uint32_t>(p.batches)};
    return [f = function("recurrent_product"), grid, p](cuda::CudaLaunch &dev, int64_t) {
      if (p.m > 0 && p.n > 0) dev.run(f, grid, {16, 16, 1}, 0, p);
    };
  }
  /// A kernel over `items` with arguments and the step.
  template <class Args> RecurrentLaunch each(const std::string &name, int64_t items, const Args &a) const {
    return [f = function(name), items, a](cuda::CudaLaunch &dev, int64_t s) {
      if (items > 0) dev.run(f, cuda::blocksFor(items), {cuda::kBlock, 1, 1}, 0, a, s);
    };
  }

private:
  KernelBindContext *ctx_;
  DataType type_;
  size_t size_;
  Pieces<char> pieces_;
};

} // namespace opc::ops
