// A convolution with 3x3 windows by Winograd's minimal filtering, with a quarter of the multiplications.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DnnlConvolution.h"
#include "WinogradTiles.h"

namespace opc::ops {

/// A forward convolution between fixed addresses with a constant weight, images in channels_last
/// (cpu::WinogradTiles). The bytes of a sample's result depend neither on the number of threads, nor on the samples
/// beside it, nor on the processor.
///
/// A tile's results share sums of its 36 inputs, so that their errors are relative to the largest of these: up to
/// two times those of a direct convolution where inputs are alike. A sample that is not (isTame) is computed directly.
class WinogradConvolution {
public:
  /// Null where a direct convolution is as good: the shape decides, but for the batch, and whether the weight is
  /// finite.
  static std::unique_ptr<WinogradConvolution> create(const ConvGeometry &g, const float *source, const float *weight,
                                                     const float *bias, float *target, const ConvExtras &extras);
  ~WinogradConvolution();
  WinogradConvolution(const WinogradConvolution &) = delete;
  WinogradConvolution &operator=(const WinogradConvolution &) = delete;
  void run(DeviceCtx *ctx);

private:
  struct Direct; // by the library
  struct Seen;   // of numbers
  struct Stage;

  WinogradConvolution(const ConvGeometry &g, const float *source, const float *weight, const float *bias, float *target,
                      const ConvExtras &extras);
  void look(DeviceCtx *ctx);
  bool isTame(int64_t sample) const;
  void runTiles(DeviceCtx *ctx, int64_t begin, int64_t end);
  void transform(const Stage &s, int64_t begin, int64_t end) const;
  void multiply(const Stage &s, int64_t item, float *scratch) const;
  void runDirectly(DeviceCtx *ctx, int64_t sample);

  const cpu::WinogradTiles &tiles_;
  ConvGeometry geometry_; // of a sample
  ConvExtras extras_;
  int64_t samples_, tileRows_, tileColumns_;
  const float *source_, *bias_;
  float *target_;
  std::shared_ptr<const void> weight_; // [filters / 16, channels, 9, 16]
  std::vector<float> noBias_;
  int64_t parts_; // of a sample that is looked at
  std::vector<Seen> seen_;
  std::shared_ptr<EdgeMemory> whole_, pieces_; // for all threads, for each
  std::unique_ptr<Direct> direct_;
};

} // namespace opc::ops
