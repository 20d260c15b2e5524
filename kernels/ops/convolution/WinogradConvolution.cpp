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
/// with AVX-512, 0.7 to 0.9 where there are four tiles. Images in channels_last.
bool fits(const ConvGeometry &g) {
  constexpr int64_t kLeastTiles = 4;
  const auto is = [&](const Spatial &s, int64_t first, int64_t others) {
    return s[0] == first && s[1] == others && s[2] == others;
  };
  if (g.dims != 2 || g.groups != 1 || g.batch == 0 || g.channels == 0 || g.filters == 0 || !is(g.kernel, 1, 3) ||
      !is(g.stride, 1, 1) || !is(g.dilation, 1, 1))
    return false;
  for (const size_t i : {1, 2})
    if (g.padding[i] > 1 || g.out[i] != g.in[i] + 2 * g.padding[i] - 2) return false;
  const int64_t tiles = tilesAlong(g.out[1]) * tilesAlong(g.out[2]), results = g.out[1] * g.out[2];
  return g.channels % kLanes == 0 && g.filters % kLanes == 0 && tiles >= kLeastTiles &&
         results * 10 >= 6 * tiles * kTile * kTile; // of whose results so many are there
}

constexpr int64_t kWindow = 9, kPanel = kWindow * kLanes; // numbers of a channel in kLanes filters

/// The convolution that is the gradient of `g`, whose strides are 1, by its images.
ConvGeometry adjoint(ConvGeometry g) {
  std::swap(g.channels, g.filters);
  std::swap(g.in, g.out);
  for (const size_t i : {1, 2}) g.padding[i] = 2 - g.padding[i];
  return g;
}

float numberOf(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

} // namespace

/// Where the elements of a weight [filters, channels, 9] lie.
struct WinogradConvolution::WeightLayout {
  int64_t filter, channel, pixel, first;
  /// `last`: channels lie behind the window. Of an adjoint convolution the weight is that of `g` with filters and
  /// channels in each other's place, windows from behind.
  static WeightLayout of(const ConvGeometry &g, bool last, ConvDirection direction) {
    const int64_t filter = g.channels * kWindow, channel = last ? 1 : kWindow, pixel = last ? g.channels : 1;
    if (direction == ConvDirection::kForward) return {filter, channel, pixel, 0};
    return {channel, filter, -pixel, (kWindow - 1) * pixel};
  }
};

/// A weight by kLanes filters, as WinogradTiles::weight takes it, and what is known of its numbers.
struct WinogradConvolution::Weight {
  const float *numbers = nullptr; // [filters / 16, channels, 9, 16]
  std::vector<float> scales;      // of each channel, its largest weight over that of all
  bool isInRange = false;

  /// The filters of a panel; `largest` gets the bits of each channel's largest magnitude in it.
  static void packPanel(const WinogradTiles &tiles, const float *weight, const WeightLayout &from, int64_t channels,
                        int64_t panel, float *to, uint32_t *largest) {
    static const std::vector<float> one(static_cast<size_t>(kPanel), 1.0f);
    for (int64_t c = 0; c < channels; ++c, to += kPanel) {
      const float *const w = weight + from.first + panel * kLanes * from.filter + c * from.channel;
      for (int64_t p = 0; p < kWindow; ++p)
        for (int64_t f = 0; f < kLanes; ++f) to[p * kLanes + f] = w[f * from.filter + p * from.pixel];
      largest[c] = tiles.largest(to, one.data(), kPanel);
    }
  }
  /// `largest`: [panels, channels].
  void judge(const std::vector<uint32_t> &largest, size_t channels) {
    uint32_t most = 0, ofChannel;
    for (const uint32_t bits : largest) most = std::max(most, bits);
    isInRange = numberOf(most) >= kLeast && numberOf(most) <= kLargest; // which a NaN is not
    constexpr float kSmall = 1e-20f; // a number that is too large for a transform shows all the same
    scales.assign(channels, kSmall);
    for (size_t c = 0; isInRange && c < channels; ++c) {
      ofChannel = 0;
      for (size_t at = c; at < largest.size(); at += channels) ofChannel = std::max(ofChannel, largest[at]);
      scales[c] = std::max(kSmall, numberOf(ofChannel) / numberOf(most));
    }
  }
};

/// That of all kernels that share it: when a second one is made, the memory that it came from may be gone.
struct WinogradConvolution::Packed : Weight {
  Packed(const WinogradTiles &tiles, const ConvGeometry &g, bool last, const float *weight)
      : memory(g.filters * g.channels * kWindow) {
    const int64_t panels = g.filters / kLanes;
    std::vector<uint32_t> largest(static_cast<size_t>(panels * g.channels));
    for (int64_t i = 0; i < panels; ++i)
      packPanel(tiles, weight, WeightLayout::of(g, last, ConvDirection::kForward), g.channels, i,
                memory.get() + i * g.channels * kPanel, largest.data() + i * g.channels);
    numbers = memory.get();
    judge(largest, static_cast<size_t>(g.channels));
  }
  cpu::Scratch<float> memory;
};

/// What is made anew in each run, in memory that is lent for it.
struct WinogradConvolution::Edges {
  const float *weight;
  WeightLayout layout;
  std::vector<uint32_t> largest; // of the weight, [panels, channels]
  Weight packed;
  int64_t weightCount, sourceCount = 0, targetCount = 0; // numbers; of images that lie in channels_first
  std::optional<cpu::DnnlExecution> reorderSource, reorderTarget;

  int64_t count() const { return weightCount + sourceCount + targetCount; }
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
  if (!g.channelsLast || !fits(g)) return nullptr;
  std::unique_ptr<WinogradConvolution> made(new WinogradConvolution(g, source, bias, target, extras));
  const bool last = extras.weightLast.value_or(true);
  const std::string key = extras.packKey.empty() ? "" : extras.packKey + (last ? "winograd last" : "winograd first");
  made->shared_ = sharedPack(key, [&] { return std::make_shared<const Packed>(made->tiles_, g, last, weight); });
  made->weight_ = static_cast<const Packed *>(made->shared_.get());
  return made->weight_->isInRange ? std::move(made) : nullptr;
}

std::unique_ptr<WinogradConvolution> WinogradConvolution::ofChanging(const ConvGeometry &of, ConvDirection direction,
                                                                     const float *source, const float *weight,
                                                                     const float *bias, float *target) {
  constexpr int64_t kLeastTiles = 32; // for which a weight is worth its way
  const ConvGeometry g = direction == ConvDirection::kForward ? of : adjoint(of);
  if (!fits(g) || g.batch * tilesAlong(g.out[1]) * tilesAlong(g.out[2]) < kLeastTiles) return nullptr;
  std::unique_ptr<WinogradConvolution> made(new WinogradConvolution(g, source, bias, target, {}));
  made->edges_ = std::make_unique<Edges>();
  Edges &e = *made->edges_;
  e.weight = weight;
  e.layout = WeightLayout::of(of, of.channelsLast, direction);
  e.largest.resize(static_cast<size_t>(g.filters / kLanes * g.channels));
  e.weightCount = g.filters * g.channels * kWindow;
  made->weight_ = &e.packed;
  if (g.channelsLast) return made;
  ConvGeometry last = g;
  last.channelsLast = true;
  e.sourceCount = g.inShape().elem_cnt();
  e.targetCount = g.outShape().elem_cnt();
  e.reorderSource = dnnlReorderOf(dnnlIn(g, g.batch), source, dnnlIn(last, g.batch), nullptr);
  e.reorderTarget = dnnlReorderOf(dnnlOut(last, g.batch), nullptr, dnnlOut(g, g.batch), target);
  return made;
}

WinogradConvolution::WinogradConvolution(const ConvGeometry &g, const float *source, const float *bias, float *target,
                                         const ConvExtras &extras)
    : tiles_(cpu::winogradTiles()), geometry_(g), extras_(extras), samples_(g.batch), tileRows_(tilesAlong(g.out[1])),
      tileColumns_(tilesAlong(g.out[2])), source_(source), bias_(bias), target_(target),
      noBias_(static_cast<size_t>(bias ? 0 : kLanes)), largest_(static_cast<size_t>(g.batch * g.in[1] * g.in[2])),
      isDirect_(static_cast<size_t>(g.batch * tileRows_ * tileColumns_)),
      whole_(EdgeMemory::shared(EdgeMemory::Of::kKernel)), pieces_(EdgeMemory::shared(EdgeMemory::Of::kThread)) {
  geometry_.batch = 1;
}

WinogradConvolution::~WinogradConvolution() = default;

/// The weight, and images in channels_last, of this run.
void WinogradConvolution::prepare(DeviceCtx *ctx, float *memory) {
  Edges &e = *edges_;
  const int64_t channels = geometry_.channels;
  ctx->parallelFor(geometry_.filters / kLanes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      Weight::packPanel(tiles_, e.weight, e.layout, channels, i, memory + i * channels * kPanel,
                        e.largest.data() + i * channels);
  });
  e.packed.numbers = memory;
  e.packed.judge(e.largest, static_cast<size_t>(channels));
  if (!e.reorderSource) return;
  float *const source = memory + e.weightCount, *const target = source + e.sourceCount;
  e.reorderSource->rebind(DNNL_ARG_TO, source);
  e.reorderSource->execute();
  e.reorderTarget->rebind(DNNL_ARG_FROM, target);
  source_ = source;
  target_ = target;
}

WinogradConvolution::Tile WinogradConvolution::tileAt(int64_t index) const {
  const int64_t tiles = tileRows_ * tileColumns_;
  return {index / tiles, index % tiles / tileColumns_ * kTile, index % tileColumns_ * kTile};
}

/// Whether the largest of the tile's pixels is near enough to that of each result's window: an error is relative to the
/// former. What is nothing but zeros has no error.
bool WinogradConvolution::isAlike(const Tile &t) const {
  if (!weight_->isInRange) return false;
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
  constexpr int64_t kStage = int64_t{1} << 20; // numbers: 4 MiB
  const int64_t pixels = samples_ * geometry_.in[1] * geometry_.in[2], channels = geometry_.channels;
  const int64_t tiles = samples_ * tileRows_ * tileColumns_, stride = kBlock * channels + kPadding;
  const int64_t blocks = std::clamp<int64_t>(kStage / (kNumbers * stride), 1, (tiles + kBlock - 1) / kBlock);
  const int64_t edges = edges_ ? edges_->count() : 0;
  EdgeMemory::Lease whole(*whole_, static_cast<size_t>(edges + blocks * kNumbers * stride) * sizeof(float));
  float *const memory = reinterpret_cast<float *>(whole.data());
  if (edges_) {
    cpu::setLibraryThreads(ctx->threads());
    prepare(ctx, memory);
  }
  const float *const scales = weight_->scales.data();
  ctx->parallelFor(pixels, std::max<int64_t>(1, 32768 / channels), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      constexpr uint32_t kInfinity = 0x7f800000;
      const uint32_t bits = std::min(tiles_.largest(source_ + p * channels, scales, channels), kInfinity);
      std::memcpy(&largest_[static_cast<size_t>(p)], &bits, sizeof bits);
    }
  });
  const size_t piece = static_cast<size_t>(2 * kNumbers * (kChannels * kLanes + kPadding)) * sizeof(float);
  static_assert(kBlock <= kChannels, "a piece has sums of kBlock tiles beside the weight of kChannels");
  for (int64_t at = 0; at < tiles; at += blocks * kBlock) {
    const int64_t behind = std::min(tiles, at + blocks * kBlock);
    const Stage stage{at, behind, stride, (behind - at + kBlock - 1) / kBlock, memory + edges};
    ctx->parallelFor(behind - at, 4, [&](int64_t b, int64_t e) { transform(stage, at + b, at + e); });
    ctx->parallelFor(geometry_.filters / kLanes * stage.blocks, 1, [&](int64_t b, int64_t e) {
      EdgeMemory::Lease own(*pieces_, piece);
      for (int64_t i = b; i < e; ++i) multiply(stage, i, reinterpret_cast<float *>(own.data()));
    });
  }
  if (edges_ && edges_->reorderTarget) edges_->reorderTarget->execute();
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
  const float *const weight = weight_->numbers + panel * g.channels * kPanel;
  constexpr int64_t kStride = kChannels * kLanes + kPadding;
  float *const u = scratch, *const sums = scratch + kNumbers * kStride;
  for (int64_t c = 0; c < g.channels; c += kChannels) {
    const int64_t channels = std::min(kChannels, g.channels - c);
    tiles_.weight(weight + c * kPanel, channels, u, kStride);
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
                     kPanel, g.channels, sums + (i * kTile + begin) * kLanes, true);
    }
}

} // namespace opc::ops
