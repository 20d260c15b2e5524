// Winograd convolutions: which there are, and their steps on all threads.
// SPDX-License-Identifier: Apache-2.0
#include "WinogradConvolution.h"

#include "opc/PackedInputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace opc::ops {

using cpu::WinogradTiles;

namespace {

constexpr int64_t kLanes = WinogradTiles::kLanes, kTile = WinogradTiles::kTile, kNumbers = WinogradTiles::kNumbers;
/// Tiles that take a part of the weight in turn, and the channels of such a part: with the sums they fill half of a
/// second cache of 512 KiB.
constexpr int64_t kBlock = 64, kChannels = 64;
/// 36 arrays of a power of two would fall on each other in the first cache.
constexpr int64_t kPadding = kLanes;
/// Weights and pixels of these magnitudes have products and sums over all channels that stay finite, and are far from
/// the least numbers that there are.
constexpr float kLargest = 1e13f, kLeast = 1e-12f;

int64_t tilesAlong(int64_t results) { return (results + kTile - 1) / kTile; }

/// Whether a sample takes enough less than in a direct convolution: 0.3 to 0.6 of its time on a Zen 4 with AVX2 and
/// with AVX-512, 0.7 to 0.9 where there are four tiles.
bool fits(const ConvGeometry &g) {
  constexpr int64_t kLeastTiles = 4;
  const auto is = [&](const Spatial &s, int64_t first, int64_t others) {
    return s[0] == first && s[1] == others && s[2] == others;
  };
  if (g.dims != 2 || !g.channelsLast || g.groups != 1 || g.batch == 0 || !is(g.kernel, 1, 3) || !is(g.stride, 1, 1) ||
      !is(g.dilation, 1, 1))
    return false;
  for (const size_t i : {1, 2})
    if (g.padding[i] > 1 || g.out[i] != g.in[i] + 2 * g.padding[i] - 2) return false;
  const int64_t tiles = tilesAlong(g.out[1]) * tilesAlong(g.out[2]), results = g.out[1] * g.out[2];
  return g.channels % kLanes == 0 && g.filters % kLanes == 0 && tiles >= kLeastTiles &&
         results * 10 >= 6 * tiles * kTile * kTile; // of whose results so many are there
}

/// [filters, channels, 9] or [filters, 9, channels] to the layout of WinogradTiles::weight by kLanes filters.
void pack(const ConvGeometry &g, bool last, const float *weight, float *to) {
  const int64_t byChannel = last ? 1 : 9, byPixel = last ? g.channels : 1;
  for (int64_t panel = 0; panel < g.filters / kLanes; ++panel)
    for (int64_t c = 0; c < g.channels; ++c)
      for (int64_t p = 0; p < 9; ++p)
        for (int64_t f = 0; f < kLanes; ++f)
          *to++ = weight[(panel * kLanes + f) * g.channels * 9 + c * byChannel + p * byPixel];
}

} // namespace

/// The weight of all kernels that share it: when a second one is made, the memory that it came from may be gone.
struct WinogradConvolution::Packed {
  Packed(const ConvGeometry &g, bool last, const float *weight) : numbers(g.filters * g.channels * 9) {
    pack(g, last, weight, numbers.get());
    const int64_t count = g.filters * g.channels * 9;
    float largest = 0;
    isInRange = std::all_of(numbers.get(), numbers.get() + count, [&](float w) {
      largest = std::max(largest, std::fabs(w));
      return std::fabs(w) <= kLargest; // which a NaN is not
    });
    isInRange = isInRange && largest >= kLeast;
    if (!isInRange) return;
    constexpr float kSmall = 1e-20f; // a number that is too large for a transform shows all the same
    scales.assign(static_cast<size_t>(g.channels), kSmall);
    for (int64_t i = 0; i < count; ++i) {
      float &scale = scales[static_cast<size_t>(i / (9 * kLanes) % g.channels)];
      scale = std::max(scale, std::fabs(numbers.get()[i]) / largest);
    }
  }
  cpu::Scratch<float> numbers; // [filters / 16, channels, 9, 16]
  std::vector<float> scales;   // of each channel, its largest weight over that of all
  bool isInRange;
};

/// Tiles [begin, end) of all samples' in a row, transformed by blocks of kBlock: [block][number][tile][channel].
struct WinogradConvolution::Stage {
  int64_t begin, end, stride, blocks;
  float *data;
  float *block(int64_t i) const { return data + i * kNumbers * stride; }
};

std::unique_ptr<WinogradConvolution> WinogradConvolution::create(const ConvGeometry &g, const float *source,
                                                                 const float *weight, const float *bias, float *target,
                                                                 const ConvExtras &extras) {
  if (!fits(g)) return nullptr;
  std::unique_ptr<WinogradConvolution> made(new WinogradConvolution(g, source, weight, bias, target, extras));
  return made->packed().isInRange ? std::move(made) : nullptr;
}

const WinogradConvolution::Packed &WinogradConvolution::packed() const {
  return *static_cast<const Packed *>(weight_.get());
}

WinogradConvolution::WinogradConvolution(const ConvGeometry &g, const float *source, const float *weight,
                                         const float *bias, float *target, const ConvExtras &extras)
    : tiles_(cpu::winogradTiles()), geometry_(g), extras_(extras), samples_(g.batch), tileRows_(tilesAlong(g.out[1])),
      tileColumns_(tilesAlong(g.out[2])), source_(source), bias_(bias), target_(target),
      noBias_(static_cast<size_t>(bias ? 0 : kLanes)), largest_(static_cast<size_t>(g.batch * g.in[1] * g.in[2])),
      isDirect_(static_cast<size_t>(g.batch * tileRows_ * tileColumns_)),
      whole_(EdgeMemory::shared(EdgeMemory::Of::kKernel)), pieces_(EdgeMemory::shared(EdgeMemory::Of::kThread)) {
  geometry_.batch = 1;
  const bool last = extras.weightLast.value_or(g.channelsLast);
  const std::string key = extras.packKey.empty() ? "" : extras.packKey + (last ? "winograd last" : "winograd first");
  weight_ = sharedPack(key, [&] { return std::make_shared<const Packed>(g, last, weight); });
}

WinogradConvolution::Tile WinogradConvolution::tileAt(int64_t index) const {
  const int64_t tiles = tileRows_ * tileColumns_;
  return {index / tiles, index % tiles / tileColumns_ * kTile, index % tileColumns_ * kTile};
}

/// Whether the largest of the tile's pixels is near enough to that of each result's window: an error is relative to the
/// former. What is nothing but zeros has no error.
bool WinogradConvolution::isAlike(const Tile &t) const {
  constexpr float kFar = 32;
  constexpr int kSide = 6, kResults = static_cast<int>(kTile);
  const ConvGeometry &g = geometry_;
  const float *const pixels = largest_.data() + t.sample * g.in[1] * g.in[2];
  const int64_t top = t.row - g.padding[1], left = t.column - g.padding[2];
  const bool isInside = top >= 0 && left >= 0 && top + kSide <= g.in[1] && left + kSide <= g.in[2];
  float across[kSide][kResults], most = 0;
  for (int i = 0; i < kSide; ++i) {
    float at[kSide];
    for (int j = 0; j < kSide; ++j) {
      const int64_t row = top + i, column = left + j;
      const bool isThere = isInside || (row >= 0 && row < g.in[1] && column >= 0 && column < g.in[2]);
      at[j] = isThere ? pixels[row * g.in[2] + column] : 0;
    }
    for (int j = 0; j < kResults; ++j) across[i][j] = std::max(at[j], std::max(at[j + 1], at[j + 2]));
    most = std::max(most, std::max(across[i][0], across[i][kResults - 1]));
  }
  if (most == 0) return true;
  if (!(most >= kLeast && most <= kLargest)) return false;
  const int64_t rows = std::min(kTile, g.out[1] - t.row), columns = std::min(kTile, g.out[2] - t.column);
  float least = most;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      least = std::min(least, std::max(across[i][j], std::max(across[i + 1][j], across[i + 2][j])));
  return least * kFar >= most;
}

void WinogradConvolution::run(DeviceCtx *ctx) {
  const int64_t pixels = samples_ * geometry_.in[1] * geometry_.in[2], channels = geometry_.channels;
  const float *const scales = packed().scales.data();
  ctx->parallelFor(pixels, std::max<int64_t>(1, 32768 / channels), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      constexpr uint32_t kInfinity = 0x7f800000;
      const uint32_t bits = std::min(tiles_.largest(source_ + p * channels, scales, channels), kInfinity);
      std::memcpy(&largest_[static_cast<size_t>(p)], &bits, sizeof bits);
    }
  });
  constexpr int64_t kStage = int64_t{1} << 20; // numbers: 4 MiB
  const int64_t tiles = samples_ * tileRows_ * tileColumns_, stride = kBlock * channels + kPadding;
  const int64_t blocks = std::clamp<int64_t>(kStage / (kNumbers * stride), 1, (tiles + kBlock - 1) / kBlock);
  EdgeMemory::Lease whole(*whole_, static_cast<size_t>(blocks * kNumbers * stride) * sizeof(float));
  const size_t piece = static_cast<size_t>(2 * kNumbers * (kChannels * kLanes + kPadding)) * sizeof(float);
  static_assert(kBlock <= kChannels, "a piece has sums of kBlock tiles beside the weight of kChannels");
  for (int64_t at = 0; at < tiles; at += blocks * kBlock) {
    const int64_t behind = std::min(tiles, at + blocks * kBlock);
    const Stage stage{at, behind, stride, (behind - at + kBlock - 1) / kBlock, reinterpret_cast<float *>(whole.data())};
    ctx->parallelFor(behind - at, 4, [&](int64_t b, int64_t e) { transform(stage, at + b, at + e); });
    ctx->parallelFor(geometry_.filters / kLanes * stage.blocks, 1, [&](int64_t b, int64_t e) {
      EdgeMemory::Lease own(*pieces_, piece);
      for (int64_t i = b; i < e; ++i) multiply(stage, i, reinterpret_cast<float *>(own.data()));
    });
  }
}

void WinogradConvolution::transform(const Stage &s, int64_t begin, int64_t end) {
  const ConvGeometry &g = geometry_;
  const int64_t count = g.in[1] * g.in[2] * g.channels;
  for (int64_t i = begin; i < end; ++i) {
    const Tile t = tileAt(i);
    const int64_t at = i - s.begin;
    float *const to = s.block(at / kBlock) + at % kBlock * g.channels;
    const bool isDirect = !isAlike(t);
    isDirect_[static_cast<size_t>(i)] = isDirect ? 1 : 0;
    if (isDirect) // its products are of zeros: infinities in them would say that a NaN was met (opc/NanKeeping.h)
      for (int64_t n = 0; n < kNumbers; ++n) std::fill_n(to + n * s.stride, g.channels, 0.0f);
    else
      tiles_.input({source_ + t.sample * count, g.in[1], g.in[2], g.channels}, t.row - g.padding[1],
                   t.column - g.padding[2], to, s.stride);
  }
}

WinogradTiles::Place WinogradConvolution::placeOf(const Tile &t, int64_t panel) const {
  const ConvGeometry &g = geometry_;
  const int64_t pixel = (t.sample * g.out[1] + t.row) * g.out[2] + t.column;
  return {target_ + pixel * g.filters + panel * kLanes, std::min(kTile, g.out[1] - t.row),
          std::min(kTile, g.out[2] - t.column), g.out[2] * g.filters, g.filters};
}

/// kLanes filters of a block of tiles. A weight's transform is made where it is used, by kChannels: to keep it would
/// take four times the weight's memory, and as long to read.
void WinogradConvolution::multiply(const Stage &s, int64_t item, float *scratch) const {
  const ConvGeometry &g = geometry_;
  const int64_t panel = item / s.blocks, block = item % s.blocks;
  const int64_t first = s.begin + block * kBlock, rows = std::min(kBlock, s.end - first);
  const float *const weight = packed().numbers.get() + panel * g.channels * 9 * kLanes;
  constexpr int64_t kStride = kChannels * kLanes + kPadding;
  float *const u = scratch, *const sums = scratch + kNumbers * kStride;
  for (int64_t c = 0; c < g.channels; c += kChannels) {
    const int64_t channels = std::min(kChannels, g.channels - c);
    tiles_.weight(weight + c * 9 * kLanes, channels, u, kStride);
    for (int64_t i = 0; i < kNumbers; ++i)
      tiles_.product(s.block(block) + i * s.stride + c, rows, g.channels, u + i * kStride, kLanes, channels,
                     sums + i * kStride, c > 0);
  }
  const bool activates = extras_.activation != ConvExtras::kNone, clips = extras_.activation == ConvExtras::kClip;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const WinogradTiles::End end{bias_ ? bias_ + panel * kLanes : noBias_.data(), extras_.accumulate,
                               clips       ? extras_.low
                               : activates ? 0.0f
                                           : -kInfinity,
                               clips ? extras_.high : kInfinity};
  for (int64_t r = 0; r < rows; ++r) {
    const Tile t = tileAt(first + r);
    if (isDirect_[static_cast<size_t>(first + r)] != 0) {
      multiplyDirectly(t, weight, u);
      tiles_.finish(u, placeOf(t, panel), end);
    } else {
      tiles_.output(sums + r * kLanes, kStride, placeOf(t, panel), end);
    }
  }
}

/// The sums of a tile's results for kLanes filters. What a window has outside of the image is left out.
void WinogradConvolution::multiplyDirectly(const Tile &t, const float *weight, float *sums) const {
  const ConvGeometry &g = geometry_;
  std::fill_n(sums, kTile * kTile * kLanes, 0.0f);
  const float *const image = source_ + t.sample * g.in[1] * g.in[2] * g.channels;
  const int64_t columns = std::min(kTile, g.out[2] - t.column);
  for (int64_t i = 0; i < std::min(kTile, g.out[1] - t.row); ++i)
    for (int64_t p = 0; p < 9; ++p) {
      const int64_t row = t.row - g.padding[1] + i + p / 3, left = t.column - g.padding[2] + p % 3;
      const int64_t begin = std::max<int64_t>(0, -left), end = std::min(columns, g.in[2] - left);
      if (row < 0 || row >= g.in[1] || begin >= end) continue;
      tiles_.product(image + (row * g.in[2] + left + begin) * g.channels, end - begin, g.channels, weight + p * kLanes,
                     9 * kLanes, g.channels, sums + (i * kTile + begin) * kLanes, true);
    }
}

} // namespace opc::ops
