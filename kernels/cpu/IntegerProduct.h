// Exact sums of products of 8-bit integers in 32 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DnnlHandle.h"

#include <cstdint>
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
  explicit IntegerGemm(IntegerProduct product);
  void run(DeviceCtx *ctx, int32_t *c);
  /// run() does not read b.
  bool hasPackedB() const { return p_.constantB; }

private:
  struct Block {
    DnnlExecution execution;
    int64_t product, row, rows;
  };
  void prepareLibrary();
  void packB(DeviceCtx *ctx);
  void sumColumns(int64_t matrix);
  void finishRows(const Block &block, int32_t *c) const;
  void runLibrary(DeviceCtx *ctx, int32_t *c);
  void runDots(DeviceCtx *ctx, int32_t *c);
  int64_t bMatrices() const;

  IntegerProduct p_;
  bool byLibrary_ = false, isPacked_ = false;
  std::vector<Block> blocks_;
  std::vector<Scratch<char>> packed_; // of the library, one for each matrix of b
  Scratch<int8_t> shifted_;           // b, when it is unsigned, less 128
  Scratch<int32_t> columnSums_;       // of b as the library sees it
  Scratch<int16_t> centred_;          // b less its zero points, transposed
};

} // namespace opc::cpu
