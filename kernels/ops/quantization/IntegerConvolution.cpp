// Convolutions of 8-bit integers: by oneDNN with VNNI, by 16-bit dot products without.
// SPDX-License-Identifier: Apache-2.0
#include "IntegerConvolution.h"
#include "Parallel.h"

#include <algorithm>
#include <cstring>

namespace opc::ops {

using dnnl::memory;

namespace {

/// Sums that wrap around without undefined behaviour.
uint32_t wide(int32_t x) { return static_cast<uint32_t>(x); }

/// [n, c, spatial...] of a tensor whose channels are last.
memory::desc channelsLast(int64_t n, int64_t c, const Spatial &size, int dims, memory::data_type type) {
  memory::dims shape{n, c}, strides{size[0] * size[1] * size[2] * c, 1};
  int64_t step = size[0] * size[1] * size[2] * c;
  for (size_t i = firstSpatial(dims); i < 3; ++i) {
    step /= size[i];
    shape.push_back(size[i]);
    strides.push_back(step);
  }
  return {shape, type, strides};
}

bool beginsWith(const std::string &text, const char *head) { return text.rfind(head, 0) == 0; }

} // namespace

IntegerConvolution::IntegerConvolution(const IntegerConvSpec &spec, int threads) : s_(spec) {
  const ConvGeometry &g = s_.geometry;
  own_ = g.channels / g.groups;
  perGroup_ = g.filters / g.groups;
  terms_ = own_ * g.kernel[0] * g.kernel[1] * g.kernel[2];
  positions_ = g.out[0] * g.out[1] * g.out[2];
  for (size_t i = 0; i < 3; ++i) padded_[i] = g.in[i] + 2 * g.padding[i];
  if (prepareLibrary(threads)) return;
  centred_ = cpu::Scratch<int16_t>(g.filters * terms_);
  if (s_.constantWeight) packDots();
}

/// Only for a signed weight without zero points that may change.
bool IntegerConvolution::prepareLibrary(int threads) {
  const ConvGeometry &g = s_.geometry;
  const bool plainWeight =
      s_.weight.isSigned && (s_.weightZero.count == 0 || (s_.constantWeight && s_.weightZero.allZero()));
  if (!cpu::libraryIsExact() || !plainWeight || g.batch * g.filters * positions_ * terms_ == 0) return false;
  cpu::setLibraryThreads(threads);
  memory::dims shape{g.filters, own_}, strides{terms_, terms_ / own_}, steps, dilates, none;
  int64_t step = terms_ / own_;
  for (size_t i = firstSpatial(g.dims); i < 3; ++i) {
    step /= g.kernel[i];
    shape.push_back(g.kernel[i]);
    strides.push_back(step);
    steps.push_back(g.stride[i]);
    dilates.push_back(g.dilation[i] - 1);
    none.push_back(0);
  }
  if (g.groups > 1) {
    shape[0] = perGroup_;
    shape.insert(shape.begin(), g.groups);
    strides.insert(strides.begin(), perGroup_ * terms_);
  }
  plainDesc_ = {shape, memory::data_type::s8, strides};
  const dnnl::convolution_forward::primitive_desc pd(
      {dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
       channelsLast(g.batch, g.channels, padded_, g.dims, memory::data_type::u8),
       memory::desc(shape, memory::data_type::s8, memory::format_tag::any),
       channelsLast(g.batch, g.filters, g.out, g.dims, memory::data_type::s32), steps, dilates, none, none},
      cpu::dnnlAttributes(), cpu::dnnlEngine());
  // Of what the library has only these kernels leave the sums as they are; others take them through f32.
  const std::string name = pd.impl_info_str();
  if (terms_ * 255 * 128 > (int64_t(1) << 24) && !beginsWith(name, "brg")) return false;
  images_ = cpu::Scratch<char>(g.batch * g.channels * padded_[0] * padded_[1] * padded_[2]);
  sums_ = cpu::Scratch<int32_t>(g.batch * g.filters * positions_);
  filterSums_ = cpu::Scratch<int32_t>(g.filters);
  packed_ = cpu::Scratch<char>(static_cast<int64_t>(pd.weights_desc().get_size()));
  library_.emplace(pd, dnnl::convolution_forward(pd));
  library_->bind(DNNL_ARG_SRC, pd.src_desc(), images_.get());
  library_->bind(DNNL_ARG_WEIGHTS, pd.weights_desc(), packed_.get());
  library_->bind(DNNL_ARG_DST, pd.dst_desc(), sums_.get());
  packedDesc_ = pd.weights_desc();
  if (s_.constantWeight) packLibraryWeight();
  return true;
}

void IntegerConvolution::packLibraryWeight() {
  cpu::dnnlReorder(plainDesc_, s_.weight.data, packedDesc_, packed_.get());
  for (int64_t o = 0; o < s_.geometry.filters; ++o) {
    uint32_t sum = 0;
    for (int64_t t = 0; t < terms_; ++t) sum += wide(s_.weight.at(o * terms_ + t));
    filterSums_.get()[o] = static_cast<int32_t>(sum);
  }
}

void IntegerConvolution::packDots() {
  for (int64_t o = 0; o < s_.geometry.filters; ++o) {
    const int32_t zero = s_.weightZero.at(o);
    for (int64_t t = o * terms_; t < (o + 1) * terms_; ++t)
      centred_.get()[t] = static_cast<int16_t>(s_.weight.at(t) - zero);
  }
}

/// in as u8 with its channels last, and its zero point all around. The library's kernels for i8 are fewer.
void IntegerConvolution::fillImages(DeviceCtx *ctx) {
  const ConvGeometry &g = s_.geometry;
  const int64_t plane = g.in[0] * g.in[1] * g.in[2], channels = g.channels, row = padded_[2] * channels;
  const uint8_t flip = s_.in.isSigned ? 0x80 : 0;
  const auto fill = static_cast<uint8_t>(static_cast<uint8_t>(s_.inZero.at(0)) ^ flip);
  const auto *in = static_cast<const uint8_t *>(s_.in.data);
  auto *images = reinterpret_cast<uint8_t *>(images_.get());
  ctx->parallelFor(g.batch * padded_[0] * padded_[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t n = t / (padded_[0] * padded_[1]), d = t / padded_[1] % padded_[0] - g.padding[0],
                    h = t % padded_[1] - g.padding[1];
      uint8_t *to = images + t * row;
      const bool outside = d < 0 || d >= g.in[0] || h < 0 || h >= g.in[1];
      if (outside || g.padding[2] > 0) std::memset(to, fill, static_cast<size_t>(row));
      if (outside) continue;
      to += g.padding[2] * channels;
      const uint8_t *from = in + n * channels * plane + (d * g.in[1] + h) * g.in[2];
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t w = 0; w < g.in[2]; ++w) to[w * channels + c] = from[c * plane + w] ^ flip;
    }
  });
}

void IntegerConvolution::runLibrary(DeviceCtx *ctx, int32_t *out) {
  const ConvGeometry &g = s_.geometry;
  if (!s_.constantWeight) packLibraryWeight();
  fillImages(ctx);
  cpu::setLibraryThreads(ctx->threads());
  library_->execute();
  const uint32_t zero = wide(s_.inZero.at(0) + (s_.in.isSigned ? 128 : 0));
  const int32_t *sums = sums_.get();
  ctx->parallelFor(g.batch * g.filters, 8, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t n = t / g.filters, o = t % g.filters;
      const uint32_t more = wide(s_.bias ? s_.bias[o] : 0) - zero * wide(filterSums_.get()[o]);
      const int32_t *from = sums + n * positions_ * g.filters + o;
      for (int64_t i = 0; i < positions_; ++i)
        out[t * positions_ + i] = static_cast<int32_t>(wide(from[i * g.filters]) + more);
    }
  });
}

/// What one output position of a group sees, less the zero point.
void IntegerConvolution::gatherWindow(int64_t sample, int64_t group, int64_t position, int32_t zero,
                                      int16_t *to) const {
  const ConvGeometry &g = s_.geometry;
  const int64_t w0 = position % g.out[2] * g.stride[2] - g.padding[2],
                h0 = position / g.out[2] % g.out[1] * g.stride[1] - g.padding[1],
                d0 = position / g.out[2] / g.out[1] * g.stride[0] - g.padding[0];
  const int64_t plane = g.in[0] * g.in[1] * g.in[2];
  for (int64_t c = 0; c < own_; ++c) {
    const int64_t from = (sample * g.channels + group * own_ + c) * plane;
    for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
      for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
        for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
          const int64_t d = d0 + kd * g.dilation[0], h = h0 + kh * g.dilation[1], w = w0 + kw * g.dilation[2];
          const bool inside = d >= 0 && d < g.in[0] && h >= 0 && h < g.in[1] && w >= 0 && w < g.in[2];
          *to++ = static_cast<int16_t>(inside ? s_.in.at(from + (d * g.in[1] + h) * g.in[2] + w) - zero : 0);
        }
  }
}

void IntegerConvolution::runDots(DeviceCtx *ctx, int32_t *out) {
  const ConvGeometry &g = s_.geometry;
  if (!s_.constantWeight) packDots();
  const int64_t tall = 16, blocks = (positions_ + tall - 1) / tall;
  const int32_t zero = s_.inZero.at(0);
  ctx->parallelFor(g.batch * g.groups * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<int16_t> windows(static_cast<size_t>(tall * terms_));
    for (int64_t t = begin; t < end; ++t) {
      const int64_t sample = t / blocks / g.groups, group = t / blocks % g.groups, first = t % blocks * tall;
      const int64_t count = std::min(tall, positions_ - first);
      for (int64_t i = 0; i < count; ++i) gatherWindow(sample, group, first + i, zero, windows.data() + i * terms_);
      int32_t *to = out + (sample * g.filters + group * perGroup_) * positions_ + first;
      cpu::integerDots(windows.data(), count, centred_.get() + group * perGroup_ * terms_, perGroup_, terms_, to, 1,
                       positions_);
      for (int64_t o = 0; s_.bias && o < perGroup_; ++o)
        for (int64_t i = 0; i < count; ++i) {
          int32_t &sum = to[o * positions_ + i];
          sum = static_cast<int32_t>(wide(sum) + wide(s_.bias[group * perGroup_ + o]));
        }
    }
  });
}

void IntegerConvolution::run(DeviceCtx *ctx, int32_t *out) {
  if (library_)
    runLibrary(ctx, out);
  else
    runDots(ctx, out);
}

} // namespace opc::ops
