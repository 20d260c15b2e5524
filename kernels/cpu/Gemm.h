// Matrix products of row-major matrices, one or many of the same size, prepared once and run often.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/StagedKernel.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace opc::cpu {

using user_op::Scratch;

/// c[m,n] = alpha * op(a)[m,k] * op(b)[k,n], plus what c holds when `accumulate`. All matrices are dense and row-major;
/// with transA, a is stored [k,m]; with transB, b is stored [n,k].
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  double alpha = 1;
  bool accumulate = false;
};

/// Where the matrices of each product of a batch begin, in elements.
struct GemmBatch {
  std::vector<int64_t> a{0}, b{0}, c{0};
  size_t size() const { return c.size(); }
};

class DnnlGemm;

/// A prepared product. T is float, double or int32_t. The result does not depend on the number of threads: every
/// element of c is summed in one fixed order, whichever thread computes it.
///
/// The algorithm is the usual one (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008):
/// panels of b, two vectors wide, are packed; a register tile of 6 rows times one panel is the inner kernel.
template <class T> class Gemm {
public:
  /// `constantB`: b's address and contents are final; b is packed here and run() ignores its b. `packKey`: which
  /// numbers these are, for products that share what they pack (PackedInputs.h); "" does not share. `threads`: as many
  /// as there will mostly be.
  Gemm(const GemmShape &shape, GemmBatch batch, const T *constantB = nullptr, const std::string &packKey = "",
       int threads = 1);
  ~Gemm();
  Gemm(Gemm &&) noexcept;
  /// Allocates nothing. The matrices may not overlap.
  void run(DeviceCtx *ctx, const T *a, const T *b, T *c) const;
  /// run() does not read b: the constructor has packed all of it.
  bool hasPackedB() const;

private:
  /// How the products are computed, decided by the shape alone.
  enum class Path {
    kEmpty,     // k == 0 or nothing to do
    kColumn,    // n == 1: dot products of rows of a
    kRow,       // m small, b as it lies and transposed: dot products of rows of b
    kRowStream, // m == 1, b as it lies: rows of b are added up
    kRowPacked, // m == 1, packed b
    kTiles,     // everything else
    kLibrary,   // oneDNN (f32 on AVX-512, more than a few rows)
  };
  void packPanels(const T *b, T *packed, int64_t begin, int64_t end) const;
  void tile(const T *a, const T *b, const T *packed, T *c, int64_t m0, int64_t m1, int64_t n0, int64_t n1) const;
  void clear(DeviceCtx *ctx, T *c) const;
  void packConstant(const T *b, int64_t panels, const std::string &packKey);
  const T *packedPanels() const { return packed_ ? static_cast<const T *>(constantB_.get()) : packedB_.get(); }

  GemmShape s_;
  GemmBatch batch_;
  Path path_ = Path::kTiles;
  bool packed_ = false;     // the constructor packed b
  bool packInRun_ = false;  // run() packs b (shared by all products) into packedB_ first
  bool packInTile_ = false; // each tile packs the part of b that it needs
  int64_t panelStride_ = 0; // elements of one packed product's b
  int64_t rowsPerTile_ = 0, columnsPerTile_ = 0;
  Scratch<T> packedB_;
  std::shared_ptr<const void> constantB_; // packed by the constructor, and shared (PackedInputs.h)
  std::unique_ptr<DnnlGemm> library_;
};

extern template class Gemm<float>;
extern template class Gemm<double>;
extern template class Gemm<int32_t>;

} // namespace opc::cpu
