// Exact sums of products of 8-bit integers in 32 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DnnlHandle.h"
#include "Parallel.h"
#include "SumFinish.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace opc::cpu {

/// Whether the library's products of 8-bit integers are exact here. Without VNNI it adds pairs of products in 16 bits,
/// which saturate. Follows ONEDNN_MAX_CPU_ISA.
bool libraryIsExact();

/// Integers of 8 bits, signed or not, as they lie.
struct Bytes {
  const void *data = nullptr;
  bool isSigned = false;
  int32_t at(int64_t i) const {
    return isSigned ? static_cast<const int8_t *>(data)[i] : static_cast<const uint8_t *>(data)[i];
  }
};

/// Zero points: none, one, or one for each row or column.
struct ZeroPoints {
  Bytes values;
  int64_t count = 0;
  int32_t at(int64_t i) const { return count == 0 ? 0 : values.at(count == 1 ? 0 : i % count); }
  bool allZero() const {
    for (int64_t i = 0; i < count; ++i)
      if (values.at(i) != 0) return false;
    return true;
  }
};

/// c[i * rowStep + j * columnStep] = sum over p < k of a[i, p] * b[j, p] in 32 bits, which wrap around. The operands
/// are 8-bit numbers less 8-bit zero points: two products fit.
void integerDots(const int16_t *a, int64_t rows, const int16_t *b, int64_t columns, int64_t k, int32_t *c,
                 int64_t rowStep, int64_t columnStep);

/// c[m,n] = sum over k of (a - aZero)[m,k] * (b - bZero)[k,n], plus bias[n]; one or many of a size. Zero points of rows
/// and columns.
struct IntegerProduct {
  int64_t m = 0, n = 0, k = 0;
  Bytes a, b;
  ZeroPoints aZero, bZero;
  const int32_t *bias = nullptr;
  SumFinish finish;                            // of c, whose type it says
  std::vector<int64_t> aMatrix{0}, bMatrix{0}; // of each product, counted in matrices
  bool constantB = false;                      // b and bZero are final
  bool transB = false;                         // b is stored [n,k]
  int64_t bAt(int64_t matrix, int64_t row, int64_t column) const {
    return matrix * k * n + (transB ? column * k + row : row * n + column);
  }
};

/// A prepared product: by the library where that is exact, by integerDots elsewhere. The results are the same.
class IntegerGemm {
public:
  IntegerGemm(IntegerProduct product, int threads);
  void run(DeviceCtx *ctx, void *c);
  /// run() does not read b.
  bool hasPackedB() const { return p_.constantB; }

private:
  /// Rows and columns of one product: one call of the library, and what becomes of its sums.
  struct Block {
    int64_t product, row, rows, column, columns;
    size_t kind; // of Worker::executions
  };
  /// What one thread has: an execution for each size of blocks, sums that are not yet the result.
  struct Worker {
    std::vector<std::optional<DnnlExecution>> executions;
    Scratch<int32_t> sums;
  };
  /// The columns of b that blocks take at once: packed, or as they lie.
  struct Part {
    int64_t column, columns;
    dnnl::memory::desc layout;
    std::vector<Scratch<char>> packed; // of each matrix
  };
  void prepareLibrary(int threads);
  void prepareParts(int64_t tall);
  dnnl::matmul::primitive_desc describe(int64_t rows, int64_t columns, const dnnl::memory::desc &weight) const;
  void packB(DeviceCtx *ctx);
  void sumColumns(int64_t matrix);
  void addZeroPoints();
  void finishRows(const Block &block, int32_t *sums, int64_t step) const;
  void runBlock(Worker &worker, const Block &block, void *c);
  void runLibrary(DeviceCtx *ctx, void *c);
  void runDots(DeviceCtx *ctx, void *c);
  int64_t bMatrices() const;
  /// Sums are the result as the library writes them, or nearly.
  bool isPlain() const { return p_.finish.type == kInt32 && !p_.finish.relu; }
  /// Nothing that is taken off the sums differs between rows.
  bool hasEqualRows() const;

  IntegerProduct p_;
  bool byLibrary_ = false, isPacked_ = false;
  std::vector<Part> parts_;
  std::vector<Block> blocks_;
  std::vector<Worker> workers_;
  Scratch<int8_t> shifted_;     // b, when it is unsigned, less 128
  Scratch<int32_t> columnSums_; // of b as the library sees it
  Scratch<int32_t> more_;       // of each matrix of b: the biases, less zero points that are the same in all rows
  Scratch<float> zeros_;        // of the result's columns
  Scratch<int16_t> centred_;    // b less its zero points, transposed
};

/// Calls body(worker, task) for each of `tasks`, with the library on one thread in each of at most `workers`.
template <class F> void forEachTask(DeviceCtx *ctx, int64_t tasks, size_t workers, F body) {
  FirstException failure;
  std::atomic<int64_t> next{0};
  const int64_t most = std::min<int64_t>({static_cast<int64_t>(workers), ctx->threads(), tasks});
  ctx->parallelFor(most, 1, [&](int64_t begin, int64_t end) {
    setLibraryThreads(1);
    for (int64_t w = begin; w < end; ++w)
      failure.guard([&] {
        for (int64_t t = next++; t < tasks; t = next++) body(static_cast<size_t>(w), t);
      });
  });
  setLibraryThreads(ctx->threads());
  failure.rethrow();
}

} // namespace opc::cpu
