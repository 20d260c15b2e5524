// Winograd convolutions: which there are, and their steps on all threads.
// SPDX-License-Identifier: Apache-2.0
#include "WinogradConvolution.h"

#include "opc/PackedInputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace opc::ops {

using cpu::DnnlExecution;
using cpu::WinogradTiles;
using dnnl::memory;

namespace {

constexpr int64_t kLanes = WinogradTiles::kLanes, kTile = WinogradTiles::kTile, kNumbers = WinogradTiles::kNumbers;
/// Tiles that take a part of the weight in turn, and the channels of such a part: with the sums they fill half of a
/// second cache of 512 KiB.
constexpr int64_t kBlock = 64, kChannels = 64;
/// 36 arrays of a power of two would fall on each other in the first cache.
constexpr int64_t kPadding = kLanes;
/// A weight of this magnitude, inputs of this one and sums over all channels that there can be stay finite.
constexpr float kLargest = 1e13f;

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

/// A part of a sample.
struct WinogradConvolution::Seen {
  uint32_t largest = 0; // the bits of the largest magnitude: those of infinity and NaN are larger than a number's
  double squares = 0;

  static Seen of(const float *x, int64_t count) {
    uint32_t largest[kLanes] = {};
    float squares[kLanes] = {};
    for (int64_t i = 0; i < count; i += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        uint32_t bits = 0;
        std::memcpy(&bits, x + i + lane, sizeof bits);
        largest[lane] = std::max(largest[lane], bits & 0x7fffffffU);
        squares[lane] += x[i + lane] * x[i + lane];
      }
    Seen seen;
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      seen.largest = std::max(seen.largest, largest[lane]);
      seen.squares += squares[lane];
    }
    return seen;
  }
};

/// Tiles [begin, end) of all samples' in a row, transformed by blocks of kBlock: [block][number][tile][channel].
struct WinogradConvolution::Stage {
  int64_t begin, end, stride, blocks;
  float *data;
  float *block(int64_t i) const { return data + i * kNumbers * stride; }
};

/// A sample by the library, without what follows.
struct WinogradConvolution::Direct {
  memory::desc in, out;
  DnnlExecution execution;
  DnnlBuffers buffers;
};

std::unique_ptr<WinogradConvolution> WinogradConvolution::create(const ConvGeometry &g, const float *source,
                                                                 const float *weight, const float *bias, float *target,
                                                                 const ConvExtras &extras) {
  if (!fits(g)) return nullptr;
  const int64_t count = g.filters * g.channels * 9;
  if (!std::all_of(weight, weight + count, [](float w) { return std::fabs(w) <= kLargest; })) return nullptr;
  return std::unique_ptr<WinogradConvolution>(new WinogradConvolution(g, source, weight, bias, target, extras));
}

WinogradConvolution::WinogradConvolution(const ConvGeometry &g, const float *source, const float *weight,
                                         const float *bias, float *target, const ConvExtras &extras)
    : tiles_(cpu::winogradTiles()), geometry_(g), extras_(extras), samples_(g.batch), tileRows_(tilesAlong(g.out[1])),
      tileColumns_(tilesAlong(g.out[2])), source_(source), bias_(bias), target_(target),
      noBias_(static_cast<size_t>(bias ? 0 : kLanes)) {
  geometry_.batch = 1;
  const bool last = extras.weightLast.value_or(g.channelsLast);
  const std::string key = extras.packKey.empty() ? "" : extras.packKey + (last ? "winograd last" : "winograd first");
  weight_ = sharedPack(key, [&] {
    auto packed = std::make_shared<cpu::Scratch<float>>(g.filters * g.channels * 9);
    pack(g, last, weight, packed->get());
    return std::shared_ptr<const void>(packed, packed->get());
  });
  constexpr int64_t kPart = 4096; // pixels and channels
  parts_ = (geometry_.inShape().elem_cnt() + kPart - 1) / kPart;
  seen_.resize(static_cast<size_t>(samples_ * parts_));
  whole_ = EdgeMemory::shared(EdgeMemory::Of::kKernel);
  pieces_ = EdgeMemory::shared(EdgeMemory::Of::kThread);
}

WinogradConvolution::~WinogradConvolution() = default;

void WinogradConvolution::look(DeviceCtx *ctx) {
  const int64_t count = geometry_.inShape().elem_cnt(), rows = count / kLanes;
  ctx->parallelFor(samples_ * parts_, 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t sample = i / parts_, part = i % parts_;
      const int64_t first = rows * part / parts_ * kLanes, behind = rows * (part + 1) / parts_ * kLanes;
      seen_[static_cast<size_t>(i)] = Seen::of(source_ + sample * count + first, behind - first);
    }
  });
}

/// Whether the largest magnitude is finite and near enough to the root mean square, to which the errors of all results
/// are relative.
bool WinogradConvolution::isTame(int64_t sample) const {
  constexpr double kFar = 100;
  Seen all;
  for (int64_t i = sample * parts_; i < (sample + 1) * parts_; ++i) {
    const Seen &s = seen_[static_cast<size_t>(i)];
    all.largest = std::max(all.largest, s.largest);
    all.squares += s.squares;
  }
  float largest = 0;
  std::memcpy(&largest, &all.largest, sizeof largest);
  if (!(largest <= kLargest)) return false;
  const double mean = all.squares / static_cast<double>(geometry_.inShape().elem_cnt());
  return static_cast<double>(largest) * largest <= kFar * kFar * mean;
}

void WinogradConvolution::run(DeviceCtx *ctx) {
  look(ctx);
  const int64_t tiles = tileRows_ * tileColumns_;
  for (int64_t n = 0; n < samples_;) {
    int64_t behind = n;
    while (behind < samples_ && isTame(behind)) ++behind;
    if (behind > n) runTiles(ctx, n * tiles, behind * tiles);
    n = behind;
    if (n < samples_) runDirectly(ctx, n++);
  }
}

void WinogradConvolution::runTiles(DeviceCtx *ctx, int64_t begin, int64_t end) {
  constexpr int64_t kStage = int64_t{1} << 20; // numbers: 4 MiB
  const int64_t stride = kBlock * geometry_.channels + kPadding;
  const int64_t blocks = std::clamp<int64_t>(kStage / (kNumbers * stride), 1, (end - begin + kBlock - 1) / kBlock);
  EdgeMemory::Lease whole(*whole_, static_cast<size_t>(blocks * kNumbers * stride) * sizeof(float));
  const size_t piece = static_cast<size_t>(2 * kNumbers * (kChannels * kLanes + kPadding)) * sizeof(float);
  static_assert(kBlock <= kChannels, "a piece has sums of kBlock tiles beside the weight of kChannels");
  for (int64_t at = begin; at < end; at += blocks * kBlock) {
    const int64_t behind = std::min(end, at + blocks * kBlock);
    const Stage stage{at, behind, stride, (behind - at + kBlock - 1) / kBlock, reinterpret_cast<float *>(whole.data())};
    ctx->parallelFor(behind - at, 4, [&](int64_t b, int64_t e) { transform(stage, at + b, at + e); });
    ctx->parallelFor(geometry_.filters / kLanes * stage.blocks, 1, [&](int64_t b, int64_t e) {
      EdgeMemory::Lease own(*pieces_, piece);
      for (int64_t i = b; i < e; ++i) multiply(stage, i, reinterpret_cast<float *>(own.data()));
    });
  }
}

void WinogradConvolution::transform(const Stage &s, int64_t begin, int64_t end) const {
  const ConvGeometry &g = geometry_;
  const int64_t tiles = tileRows_ * tileColumns_, count = g.inShape().elem_cnt();
  for (int64_t t = begin; t < end; ++t) {
    const int64_t sample = t / tiles, row = t % tiles / tileColumns_, column = t % tileColumns_, at = t - s.begin;
    const WinogradTiles::Image image{source_ + sample * count, g.in[1], g.in[2], g.channels};
    tiles_.input(image, row * kTile - g.padding[1], column * kTile - g.padding[2],
                 s.block(at / kBlock) + at % kBlock * g.channels, s.stride);
  }
}

/// kLanes filters of a block of tiles. A weight's transform is made where it is used, by kChannels: to keep it would
/// take four times the weight's memory, and as long to read.
void WinogradConvolution::multiply(const Stage &s, int64_t item, float *scratch) const {
  const ConvGeometry &g = geometry_;
  const int64_t panel = item / s.blocks, block = item % s.blocks;
  const int64_t first = s.begin + block * kBlock, rows = std::min(kBlock, s.end - first);
  const float *const weight = static_cast<const float *>(weight_.get()) + panel * g.channels * 9 * kLanes;
  constexpr int64_t kStride = kChannels * kLanes + kPadding;
  float *const u = scratch, *const sums = scratch + kNumbers * kStride;
  for (int64_t c = 0; c < g.channels; c += kChannels) {
    const int64_t channels = std::min(kChannels, g.channels - c);
    tiles_.weight(weight + c * 9 * kLanes, channels, u, kStride);
    for (int64_t i = 0; i < kNumbers; ++i)
      tiles_.product(s.block(block) + i * s.stride + c, rows, g.channels, u + i * kStride, channels, sums + i * kStride,
                     c > 0);
  }
  const bool activates = extras_.activation != ConvExtras::kNone, clips = extras_.activation == ConvExtras::kClip;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const WinogradTiles::End end{bias_ ? bias_ + panel * kLanes : noBias_.data(), extras_.accumulate,
                               clips       ? extras_.low
                               : activates ? 0.0f
                                           : -kInfinity,
                               clips ? extras_.high : kInfinity};
  const int64_t tiles = tileRows_ * tileColumns_, count = g.outShape().elem_cnt();
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t t = first + r, row = t % tiles / tileColumns_ * kTile, column = t % tileColumns_ * kTile;
    float *const to = target_ + t / tiles * count + (row * g.out[2] + column) * g.filters + panel * kLanes;
    tiles_.output(
        sums + r * kLanes, kStride,
        {to, std::min(kTile, g.out[1] - row), std::min(kTile, g.out[2] - column), g.out[2] * g.filters, g.filters},
        end);
  }
}

void WinogradConvolution::runDirectly(DeviceCtx *ctx, int64_t sample) {
  const ConvGeometry &g = geometry_;
  cpu::setLibraryThreads(ctx->threads());
  if (!direct_) {
    const memory::desc weight({g.filters, g.channels, 3, 3}, memory::data_type::f32, memory::format_tag::Oihw16o);
    const memory::desc bias =
        bias_ ? memory::desc({g.filters}, memory::data_type::f32, memory::format_tag::x) : memory::desc();
    const DnnlWindow w(g);
    auto made = std::make_unique<Direct>();
    made->in = dnnlIn(g, 1);
    made->out = dnnlOut(g, 1);
    const dnnl::convolution_forward::primitive_desc pd({dnnl::prop_kind::forward_inference,
                                                        dnnl::algorithm::convolution_direct, made->in, dnnlAny(weight),
                                                        bias, made->out, w.strides, w.dilates, w.padding, w.padding},
                                                       cpu::dnnlAttributes(), cpu::dnnlEngine());
    made->execution = DnnlExecution(pd, dnnl::convolution_forward(pd));
    made->execution.bind(DNNL_ARG_WEIGHTS, pd.weights_desc(),
                         made->buffers.copy(weight, weight_.get(), pd.weights_desc()));
    if (bias_) made->execution.bind(DNNL_ARG_BIAS, bias, bias_);
    made->execution.bind(DNNL_ARG_SRC, made->in, source_);
    made->execution.bind(DNNL_ARG_DST, made->out, target_);
    direct_ = std::move(made);
  }
  EdgeMemory::Lease lease(*whole_, direct_->out.get_size());
  const int64_t count = g.outShape().elem_cnt();
  const auto *const sums = reinterpret_cast<float *>(lease.data());
  direct_->execution.rebind(DNNL_ARG_SRC, source_ + sample * g.inShape().elem_cnt());
  direct_->execution.rebind(DNNL_ARG_DST, sums);
  direct_->execution.execute();
  float *const to = target_ + sample * count;
  const bool activates = extras_.activation != ConvExtras::kNone, clips = extras_.activation == ConvExtras::kClip;
  ctx->parallelFor(count, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float v = extras_.accumulate ? sums[i] + to[i] : sums[i];
      if (activates) v = v <= (clips ? extras_.low : 0.0f) ? (clips ? extras_.low : 0.0f) : v; // a NaN stays
      if (clips) v = v >= extras_.high ? extras_.high : v;
      to[i] = v;
    }
  });
}

} // namespace opc::ops
