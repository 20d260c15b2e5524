// Matrix products by oneDNN, which leads on machines with AVX-512.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DnnlHandle.h"
#include "Gemm.h"

namespace opc::cpu {

/// c = alpha * op(a) * op(b) (+ c) in f32. The product is cut into blocks by the shape alone, and each block is one
/// primitive made for one thread: the result does not depend on the number of threads.
class DnnlGemm {
public:
  /// `constantB`: b's contents are final; b is packed here. Throws dnnl::error.
  DnnlGemm(const GemmShape &shape, const GemmBatch &batch, const float *constantB);
  void run(DeviceCtx *ctx, const float *a, const float *b, float *c);
  bool hasPackedB() const { return static_cast<bool>(packed_); }
  /// Whether oneDNN is the faster one here for this product (measured: with AVX-512, except for single rows and tiny
  /// products).
  static bool leads(const GemmShape &shape);

private:
  struct Block {
    DnnlExecution execution;
    int64_t a, b, c; // offsets; b is -1 when packed
    int64_t m, n;
  };
  std::vector<Block> blocks_;
  bool dense_ = false, accumulate_ = false;
  int64_t stride_ = 0; // of c
  Scratch<char> packed_;
};

} // namespace opc::cpu
