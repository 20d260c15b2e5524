// A convolution of 8-bit integers, prepared once and run often.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "IntegerProduct.h"
#include "convolution/ConvGeometry.h"

#include <optional>

namespace opc::ops {

/// out = bias + the convolution of (in - inZero) with (weight - weightZero), with zeros outside in.
struct IntegerConvSpec {
  ConvGeometry geometry;
  cpu::Bytes in, weight;
  cpu::ZeroPoints inZero, weightZero; // one of in, one or one for each filter of weight
  const int32_t *bias = nullptr;
  bool constantWeight = false; // weight and its zero points are final
};

/// By the library where that is exact, by 16-bit dot products elsewhere. The results are the same.
class IntegerConvolution {
public:
  IntegerConvolution(const IntegerConvSpec &spec, int threads);
  void run(DeviceCtx *ctx, int32_t *out);
  /// run() does not read the weight.
  bool hasPackedWeight() const { return s_.constantWeight; }

private:
  bool prepareLibrary(int threads);
  void packLibraryWeight();
  void packDots();
  void fillImages(DeviceCtx *ctx);
  void runLibrary(DeviceCtx *ctx, int32_t *out);
  void runDots(DeviceCtx *ctx, int32_t *out);
  void gatherWindow(int64_t sample, int64_t group, int64_t position, int32_t zero, int16_t *to) const;

  IntegerConvSpec s_;
  Spatial padded_{1, 1, 1};
  int64_t own_ = 0, perGroup_ = 0, terms_ = 0, positions_ = 0; // of a window; of an output's plane
  std::optional<cpu::DnnlExecution> library_;
  dnnl::memory::desc plainDesc_, packedDesc_; // of the weight
  cpu::Scratch<char> images_, packed_;        // channels last, with the padding in place; the library's layout
  cpu::Scratch<int32_t> sums_, filterSums_;
  cpu::Scratch<int16_t> centred_; // the weight less its zero points
};

} // namespace opc::ops
