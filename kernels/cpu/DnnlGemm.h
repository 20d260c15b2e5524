// Matrix products by oneDNN, which leads on machines with AVX-512.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DnnlHandle.h"
#include "Gemm.h"

#include <memory>
#include <string>

namespace opc::cpu {

/// c = alpha * op(a) * op(b) (+ c) in f32. The product is cut into blocks, each one primitive made for one thread: by
/// the shape alone, or, where b is packed, for as many threads as there are. Then an element has the same bits in
/// blocks of any size (tests/cli/batch_products.py), so the result does not depend on the number of threads.
class DnnlGemm {
public:
  /// `constantB`: b's contents are final; b is packed here. `packKey` and `threads` as of Gemm. Throws dnnl::error.
  DnnlGemm(const GemmShape &shape, const GemmBatch &batch, const float *constantB, const std::string &packKey = "",
           int threads = 1);
  void run(DeviceCtx *ctx, const float *a, const float *b, float *c);
  bool hasPackedB() const { return packed_ != nullptr; }
  /// Whether oneDNN is the faster one here for this product (measured: with AVX-512, except for few rows of a weight
  /// that may be packed, and for tiny products).
  static bool leads(const GemmShape &shape, bool constantB);

private:
  struct Block {
    DnnlExecution execution;
    int64_t a, b, c; // offsets; b is -1 when packed
    int64_t m, n;
  };
  std::vector<Block> blocks_;
  bool dense_ = false, accumulate_ = false;
  int64_t stride_ = 0;                 // of c
  std::shared_ptr<const void> packed_; // with other products of this b, where they share (PackedInputs.h)
};

} // namespace opc::cpu
