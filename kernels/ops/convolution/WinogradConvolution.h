// A convolution with 3x3 windows by Winograd's minimal filtering, with a quarter of the multiplications.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DnnlConvolution.h"

namespace opc::ops {

/// A forward convolution between fixed addresses with a constant weight, images in channels_last: F(4x4, 3x3) of Lavin
/// and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016), by oneDNN, one sample after another. The bytes
/// of a sample's result depend neither on the number of threads nor on the samples beside it.
///
/// A tile's results share sums of its 36 inputs, so that their errors are relative to the largest of these: about ten
/// times those of a direct convolution where inputs are alike. A sample that is not (isTame) is computed directly.
class WinogradConvolution {
public:
  /// Null where a direct convolution is as good, or the library or the processor has no such kernel. The shape decides,
  /// but for the batch, with the finiteness of the weight. Throws dnnl::error.
  static std::unique_ptr<WinogradConvolution> create(const ConvGeometry &g, const float *source, const float *weight,
                                                     const float *bias, float *target, int threads,
                                                     const ConvExtras &extras);
  void run(DeviceCtx *ctx);

private:
  class Edges; // the reorders around, with what they learn of a sample

  WinogradConvolution(const ConvGeometry &g, const float *source, const float *bias, float *target,
                      const ConvExtras &extras)
      : geometry_(g), extras_(extras), source_(source), bias_(bias), target_(target) {}
  bool prepare(const float *weight, int threads);
  cpu::DnnlExecution &direct();

  ConvGeometry geometry_; // of a sample
  ConvExtras extras_;
  int64_t samples_ = 0;
  const float *source_, *bias_;
  float *target_;
  const void *blockedWeight_ = nullptr; // OIhw16i16o
  dnnl::memory::desc in_, weight_, out_, scratch_;
  cpu::DnnlExecution fast_;
  std::optional<cpu::DnnlExecution> direct_;
  size_t inBytes_ = 0, outBytes_ = 0;
  std::shared_ptr<EdgeMemory> edges_;
  DnnlBuffers buffers_;
};

} // namespace opc::ops
