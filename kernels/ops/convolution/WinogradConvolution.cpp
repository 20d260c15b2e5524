// Winograd convolutions by oneDNN, between tensors in channels_last.
// SPDX-License-Identifier: Apache-2.0
#include "WinogradConvolution.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

namespace opc::ops {

using cpu::DnnlExecution;
using dnnl::memory;

namespace {

constexpr int64_t kLanes = 16; // channels in a block of the library's layout
constexpr int64_t kTile = 4;   // results of a tile along a side
/// A weight of this magnitude, inputs of this one and sums over the channels that fits() allows stay finite.
constexpr float kLargest = 1e15f;

int64_t tilesOf(const ConvGeometry &g) { return ((g.out[1] + kTile - 1) / kTile) * ((g.out[2] + kTile - 1) / kTile); }

/// Where the weight is transformed once, and kept, 36 numbers for nine: with few tiles that takes longer than the rest.
bool keepsTransformed(const ConvGeometry &g) {
  constexpr int64_t kEnough = 49;
  return tilesOf(g) < kEnough;
}

/// Whether a sample takes enough less than in a direct convolution: 0.4 to 0.7 of its time on a Zen 4 with AVX-512, the
/// reorders included. Fewer channels or tiles, and weights that are larger than the caches, take up to 1.3.
bool fits(const ConvGeometry &g) {
  constexpr int64_t kLeast = 32, kMostWeights = 256 * 256, kLeastKept = 64, kLeastTiles = 16;
  const auto is = [&](const Spatial &s, int64_t first, int64_t others) {
    return s[0] == first && s[1] == others && s[2] == others;
  };
  if (g.dims != 2 || !g.channelsLast || g.groups != 1 || !is(g.kernel, 1, 3) || !is(g.stride, 1, 1) ||
      !is(g.dilation, 1, 1))
    return false;
  for (const size_t i : {1, 2})
    if (g.padding[i] > 1 || g.out[i] != g.in[i] + 2 * g.padding[i] - 2) return false;
  const int64_t least = std::min(g.channels, g.filters);
  return g.channels % kLanes == 0 && g.filters % kLanes == 0 && least >= kLeast &&
         g.channels * g.filters <= kMostWeights && tilesOf(g) >= kLeastTiles &&
         (!keepsTransformed(g) || least >= kLeastKept);
}

/// A primitive that takes its scratchpad from its caller, when it runs.
struct Leased {
  memory::desc scratchpad_desc() const { return {}; } // NOLINT(readability-identifier-naming): as oneDNN
};

} // namespace

/// Between [pixel][channel] and the library's [channel / 16][pixel][16].
class WinogradConvolution::Edges {
public:
  Edges(DeviceCtx *ctx, int64_t pixels, int64_t channels)
      : ctx_(ctx), pixels_(pixels), channels_(channels), parts_((pixels + kPart - 1) / kPart) {}

  /// Whether a sample's largest magnitude is finite and near enough to its root mean square: errors of all results are
  /// relative to it.
  bool isTameInto(float *to, const float *from) const {
    constexpr double kFar = 100;
    std::vector<Seen> seen(static_cast<size_t>(items()));
    ctx_->parallelFor(items(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)] = blockPart(i, to, from);
    });
    Seen all;
    for (const Seen &s : seen) {
      all.largest = std::max(all.largest, s.largest);
      all.squares += s.squares;
    }
    float largest = 0;
    std::memcpy(&largest, &all.largest, sizeof largest);
    // The bits of infinity and NaN are larger than those of numbers.
    const float bound = kLargest;
    uint32_t most = 0;
    std::memcpy(&most, &bound, sizeof most);
    if (all.largest > most) return false;
    return static_cast<double>(largest) * largest <=
           kFar * kFar * all.squares / static_cast<double>(pixels_ * channels_);
  }

  void finish(const float *from, float *to, const ConvExtras &extras) const {
    ctx_->parallelFor(items(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        extras.accumulate ? part<true>(i, from, to, extras) : part<false>(i, from, to, extras);
    });
  }

private:
  static constexpr int64_t kPart = 256, kGrain = 4; // pixels of an item, items of a thread

  struct Seen {
    uint32_t largest = 0; // bits of the largest magnitude
    double squares = 0;
  };

  int64_t items() const { return parts_ * (channels_ / kLanes); }

  Seen blockPart(int64_t item, float *to, const float *from) const {
    const int64_t block = item / parts_, first = item % parts_ * kPart, last = std::min(pixels_, first + kPart);
    uint32_t largest[kLanes] = {};
    float squares[kLanes] = {};
    float *into = to + (block * pixels_ + first) * kLanes;
    for (int64_t p = first; p < last; ++p, into += kLanes) {
      const float *at = from + p * channels_ + block * kLanes;
      uint32_t bits[kLanes];
      std::memcpy(bits, at, sizeof bits);
      std::memcpy(into, at, sizeof bits);
      for (int64_t c = 0; c < kLanes; ++c) {
        largest[c] = std::max(largest[c], bits[c] & 0x7fffffffU);
        squares[c] += at[c] * at[c];
      }
    }
    Seen seen;
    for (int64_t c = 0; c < kLanes; ++c) {
      seen.largest = std::max(seen.largest, largest[c]);
      seen.squares += squares[c];
    }
    return seen;
  }

  /// Of two zeros a bound, as the library's maxima and minima; a NaN stays.
  template <bool accumulates> void part(int64_t item, const float *from, float *to, const ConvExtras &extras) const {
    const int64_t block = item / parts_, first = item % parts_ * kPart, last = std::min(pixels_, first + kPart);
    const bool activates = extras.activation != ConvExtras::kNone, clips = extras.activation == ConvExtras::kClip;
    const float infinity = std::numeric_limits<float>::infinity();
    const float low = clips ? extras.low : activates ? 0.0f : -infinity, high = clips ? extras.high : infinity;
    const float *at = from + (block * pixels_ + first) * kLanes;
    for (int64_t p = first; p < last; ++p, at += kLanes) {
      float *into = to + p * channels_ + block * kLanes;
      for (int64_t c = 0; c < kLanes; ++c) {
        const float v = accumulates ? at[c] + into[c] : at[c], raised = v <= low ? low : v;
        into[c] = raised >= high ? high : raised;
      }
    }
  }

  DeviceCtx *ctx_;
  int64_t pixels_, channels_, parts_;
};

std::unique_ptr<WinogradConvolution> WinogradConvolution::create(const ConvGeometry &g, const float *source,
                                                                 const float *weight, const float *bias, float *target,
                                                                 int threads, const ConvExtras &extras) {
  if (!fits(g)) return nullptr;
  const int64_t weights = g.filters * g.channels * 9;
  if (!std::all_of(weight, weight + weights, [](float w) { return std::fabs(w) <= kLargest; })) return nullptr;
  std::unique_ptr<WinogradConvolution> made(new WinogradConvolution(g, source, bias, target, extras));
  return made->prepare(weight, threads) ? std::move(made) : nullptr;
}

bool WinogradConvolution::prepare(const float *weight, int threads) {
  samples_ = geometry_.batch;
  geometry_.batch = 1;
  const ConvGeometry &g = geometry_;
  constexpr auto f32 = memory::data_type::f32;
  in_ = memory::desc({1, g.channels, g.in[1], g.in[2]}, f32, memory::format_tag::nChw16c);
  out_ = memory::desc({1, g.filters, g.out[1], g.out[2]}, f32, memory::format_tag::nChw16c);
  weight_ = memory::desc({g.filters, g.channels, 3, 3}, f32, memory::format_tag::OIhw16i16o);
  const memory::desc userWeight = dnnlWeight(g, extras_.weightLast.value_or(true));
  const DnnlWindow w(g);
  const memory::desc bias = bias_ ? memory::desc({g.filters}, f32, memory::format_tag::x) : memory::desc();
  const auto kind = keepsTransformed(g) ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
  std::optional<cpu::LaidOutForMany> many(std::in_place);
  dnnl::convolution_forward::primitive_desc pd({kind, dnnl::algorithm::convolution_winograd, in_, dnnlAny(userWeight),
                                                bias, out_, w.strides, w.dilates, w.padding, w.padding},
                                               cpu::dnnlAttributes(), cpu::dnnlEngine(), /*allow_empty=*/true);
  if (!pd.get(true)) return false;
  while (std::string_view(pd.impl_info_str()).find("wino_4x3") == std::string_view::npos)
    if (!pd.next_impl()) return false;
  const dnnl::convolution_forward primitive(pd);
  many.reset();
  cpu::setLibraryThreads(threads); // for the reorders

  blockedWeight_ = buffers_.copy(userWeight, weight, weight_, extras_.packKey);
  const void *transformed = blockedWeight_;
  if (keepsTransformed(g)) {
    const memory::desc plain = dnnlWeight(g, /*channelsLast=*/false);
    const auto oihw = plain == userWeight ? cpu::Scratch<char>() : cpu::dnnlReordered(userWeight, weight, plain);
    transformed = buffers_.copy(plain, oihw ? oihw.get() : reinterpret_cast<const char *>(weight), pd.weights_desc(),
                                extras_.packKey);
  }
  fast_ = DnnlExecution(Leased(), primitive);
  fast_.bind(DNNL_ARG_SRC, in_, nullptr);
  fast_.bind(DNNL_ARG_DST, out_, nullptr);
  fast_.bind(DNNL_ARG_WEIGHTS, pd.weights_desc(), transformed);
  if (bias_) fast_.bind(DNNL_ARG_BIAS, bias, bias_);
  scratch_ = pd.scratchpad_desc();
  fast_.bind(DNNL_ARG_SCRATCHPAD, scratch_, nullptr);
  inBytes_ = in_.get_size();
  outBytes_ = out_.get_size();
  edges_ = EdgeMemory::shared();
  return true;
}

DnnlExecution &WinogradConvolution::direct() {
  if (direct_) return *direct_;
  const DnnlWindow w(geometry_);
  const memory::desc bias =
      bias_ ? memory::desc({geometry_.filters}, memory::data_type::f32, memory::format_tag::x) : memory::desc();
  const dnnl::convolution_forward::primitive_desc pd({dnnl::prop_kind::forward_inference,
                                                      dnnl::algorithm::convolution_direct, in_, weight_, bias, out_,
                                                      w.strides, w.dilates, w.padding, w.padding},
                                                     cpu::dnnlAttributes(), cpu::dnnlEngine());
  DnnlExecution &e = direct_.emplace(pd, dnnl::convolution_forward(pd));
  e.bind(DNNL_ARG_WEIGHTS, weight_, blockedWeight_);
  if (bias_) e.bind(DNNL_ARG_BIAS, bias, bias_);
  e.bind(DNNL_ARG_SRC, in_, nullptr);
  e.bind(DNNL_ARG_DST, out_, nullptr);
  return e;
}

void WinogradConvolution::run(DeviceCtx *ctx) {
  cpu::setLibraryThreads(ctx->threads());
  EdgeMemory::Lease lease(*edges_, inBytes_ + outBytes_ + scratch_.get_size());
  char *const memory = lease.data();
  auto *const in = reinterpret_cast<float *>(memory), *const out = reinterpret_cast<float *>(memory + inBytes_);
  fast_.rebind(DNNL_ARG_SCRATCHPAD, memory + inBytes_ + outBytes_);
  const int64_t pixels = geometry_.in[1] * geometry_.in[2], results = geometry_.out[1] * geometry_.out[2];
  const Edges before(ctx, pixels, geometry_.channels), after(ctx, results, geometry_.filters);
  for (int64_t n = 0; n < samples_; ++n) {
    const bool isTame = before.isTameInto(in, source_ + n * pixels * geometry_.channels);
    DnnlExecution &e = isTame ? fast_ : direct();
    e.rebind(DNNL_ARG_SRC, in);
    e.rebind(DNNL_ARG_DST, out);
    e.execute();
    after.finish(out, target_ + n * results * geometry_.filters, extras_);
  }
}

} // namespace opc::ops
