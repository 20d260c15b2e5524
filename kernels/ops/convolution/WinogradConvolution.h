// A convolution with 3x3 windows by Winograd's minimal filtering, with a quarter of the multiplications.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DnnlConvolution.h"
#include "WinogradTiles.h"

namespace opc::ops {

/// A convolution between fixed addresses (cpu::WinogradTiles). The bytes of a result depend neither on the number of
/// threads, nor on the samples beside it, nor on the processor.
///
/// A tile's results share sums of its 36 pixels, so that their errors are relative to the largest of these: up to two
/// times those of a direct convolution where pixels are alike. A tile whose pixels are not (isAlike) is computed
/// directly.
class WinogradConvolution {
public:
  /// With a constant weight, of images in channels_last. Null where a direct convolution is as good: the shape decides,
  /// but for the batch, and the range of the weight.
  static std::unique_ptr<WinogradConvolution> create(const ConvGeometry &g, const float *source, const float *weight,
                                                     const float *bias, float *target, const ConvExtras &extras);
  /// With a weight that each run reads anew, in g's layout, as `target`'s. kData: the gradient by the images. Null
  /// where a direct convolution is as good: the shape decides, with the batch.
  static std::unique_ptr<WinogradConvolution> ofChanging(const ConvGeometry &g, ConvDirection direction,
                                                         const float *source, const float *weight, const float *bias,
                                                         float *target);
  ~WinogradConvolution();
  void run(DeviceCtx *ctx);

private:
  struct WeightLayout;
  struct Weight;
  struct Packed;
  struct Edges;
  struct Stage;
  struct Tile { // of all samples' in a row, where it begins
    int64_t sample, row, column;
  };

  WinogradConvolution(const ConvGeometry &g, const float *source, const float *bias, float *target,
                      const ConvExtras &extras);
  void prepare(DeviceCtx *ctx, float *memory);
  Tile tileAt(int64_t index) const;
  bool isAlike(const Tile &t) const;
  void transform(const Stage &s, int64_t begin, int64_t end);
  void multiply(const Stage &s, int64_t item, float *scratch) const;
  void multiplyDirectly(const Tile &t, const float *weight, float *sums) const;
  cpu::WinogradTiles::Place placeOf(const Tile &t, int64_t panel) const;

  const cpu::WinogradTiles &tiles_;
  ConvGeometry geometry_; // of a sample
  ConvExtras extras_;
  int64_t samples_, tileRows_, tileColumns_;
  const float *source_, *bias_;
  float *target_;
  std::shared_ptr<const void> shared_; // Packed, of a constant weight
  std::unique_ptr<Edges> edges_;       // of one that changes
  const Weight *weight_ = nullptr;     // of either
  std::vector<float> noBias_;
  std::vector<float> largest_;    // of each pixel, its channels' largest, by their weights; of a NaN infinity
  std::vector<uint8_t> isDirect_; // of each tile
  std::shared_ptr<EdgeMemory> whole_, pieces_; // for all threads, for each
};

} // namespace opc::ops
