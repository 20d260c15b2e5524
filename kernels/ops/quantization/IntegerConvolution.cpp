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
  ConvGeometry &g = s_.geometry;
  // The dimension that bands cut is not one of size 1 when there is another.
  for (size_t i = firstSpatial(g.dims); g.dims > 1 && g.in[i] * g.out[i] * g.kernel[i] == 1 && g.padding[i] == 0; ++i)
    --g.dims;
  own_ = g.channels / g.groups;
  perGroup_ = g.filters / g.groups;
  terms_ = own_ * g.kernel[0] * g.kernel[1] * g.kernel[2];
  positions_ = g.out[0] * g.out[1] * g.out[2];
  outer_ = firstSpatial(g.dims);
  for (size_t i = 0; i < 3; ++i) padded_[i] = g.in[i] + 2 * g.padding[i];
  more_ = cpu::Scratch<int32_t>(g.filters);
  zeros_ = cpu::Scratch<float>(g.filters);
  if (prepareLibrary(threads)) return;
  centred_ = cpu::Scratch<int16_t>(g.filters * terms_);
  if (s_.constantWeight) packDots();
}

bool IntegerConvolution::movesImages() const {
  const ConvGeometry &g = s_.geometry;
  return !g.channelsLast || s_.in.isSigned || padded_ != g.in;
}

/// Sums of a band and the filters of a part stay in the cache until they are finished. Neither changes a result.
void IntegerConvolution::chooseBands(int threads) {
  constexpr int64_t kSums = 1 << 18, kWeights = 1 << 20; // sums of a band; bytes of a part
  const ConvGeometry &g = s_.geometry;
  const int64_t rows = g.out[outer_];
  int64_t count = 1;
  if (g.groups == 1)
    while (g.filters * terms_ > count * kWeights && g.filters >= count * 128) count *= 2;
  bands_ = std::clamp<int64_t>((positions_ * (g.filters / count) + kSums - 1) / kSums, 1, rows);
  if (g.groups == 1 && rows < 14 && count < threads && g.filters >= threads * int64_t{64}) count = threads;
  const int64_t many = bands_ * count * g.batch;
  if (many % threads != 0 && many < int64_t{8} * threads)
    bands_ = std::min(rows, (bands_ + threads - 1) / threads * threads);
  const int64_t least = positions_ == rows ? 256 : 4; // rows of a band; a row may be one position
  while (bands_ < rows && rows % bands_ != 0 && rows / bands_ > least) ++bands_; // of one height, if that is not far
  bandRows_ = (rows + bands_ - 1) / bands_;
  bands_ = (rows + bandRows_ - 1) / bandRows_;
  const int64_t width = g.groups > 1 ? g.filters : ((g.filters + count - 1) / count + 15) / 16 * 16;
  for (int64_t first = 0; first < g.filters; first += width) {
    Part part;
    part.first = first;
    part.filters = std::min(width, g.filters - first);
    parts_.push_back(std::move(part));
  }
}

/// `rows` of a band with the filters of `part`.
dnnl::convolution_forward::primitive_desc IntegerConvolution::describe(int64_t rows, const Part &part) const {
  const ConvGeometry &g = s_.geometry;
  memory::dims steps, dilates, none;
  for (size_t i = outer_; i < 3; ++i) {
    steps.push_back(g.stride[i]);
    dilates.push_back(g.dilation[i] - 1);
    none.push_back(0);
  }
  Spatial in = padded_, out = g.out;
  in[outer_] = (rows - 1) * g.stride[outer_] + g.dilation[outer_] * (g.kernel[outer_] - 1) + 1;
  out[outer_] = rows;
  const memory::desc weight =
      part.packed.get() ? part.layout : memory::desc(part.plain.dims(), memory::data_type::s8, memory::format_tag::any);
  return {{dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
           channelsLast(1, g.channels, in, g.dims, memory::data_type::u8), weight,
           channelsLast(1, part.filters, out, g.dims, memory::data_type::s32), steps, dilates, none, none},
          cpu::dnnlAttributes(),
          cpu::dnnlEngine(),
          true};
}

/// Only for a signed weight without zero points that may change.
bool IntegerConvolution::prepareLibrary(int threads) {
  const ConvGeometry &g = s_.geometry;
  const bool plainWeight =
      s_.weight.isSigned && (s_.weightZero.count == 0 || (s_.constantWeight && s_.weightZero.allZero()));
  if (!cpu::libraryIsExact() || !plainWeight || g.batch * g.filters * positions_ * terms_ == 0) return false;
  cpu::setLibraryThreads(1);
  chooseBands(threads);
  bool found = prepareParts();
  if (!found && bands_ > 1) { // the last band wants another kernel than the others
    bands_ = 1, bandRows_ = g.out[outer_];
    found = prepareParts();
  }
  if (!found) {
    parts_.clear();
    return false;
  }
  if (movesImages()) images_ = cpu::Scratch<char>(g.batch * g.channels * padded_[0] * padded_[1] * padded_[2]);
  filterSums_ = cpu::Scratch<int32_t>(g.filters);
  if (s_.constantWeight) packLibraryWeight();
  prepareWorkers(threads);
  return true;
}

/// The layouts of the weight. False where the library has no kernel that leaves the sums as they are: only those called
/// "brg" do, others take long sums through f32.
bool IntegerConvolution::prepareParts() {
  const ConvGeometry &g = s_.geometry;
  const auto isExact = [&](const dnnl::convolution_forward::primitive_desc &pd) {
    return pd.get(true) && (terms_ * 255 * 128 <= (int64_t(1) << 24) || beginsWith(pd.impl_info_str(), "brg"));
  };
  for (Part &part : parts_) {
    memory::dims shape{part.filters, own_}, strides{terms_, terms_ / own_};
    int64_t step = terms_ / own_;
    for (size_t i = outer_; i < 3; ++i) {
      step /= g.kernel[i];
      shape.push_back(g.kernel[i]);
      strides.push_back(step);
    }
    if (g.groups > 1) {
      shape[0] = perGroup_;
      shape.insert(shape.begin(), g.groups);
      strides.insert(strides.begin(), perGroup_ * terms_);
    }
    part.plain = {shape, memory::data_type::s8, strides};
    part.packed = {};
    const auto pd = describe(bandRows_, part);
    if (!isExact(pd)) return false;
    part.layout = pd.weights_desc();
    part.packed = cpu::Scratch<char>(static_cast<int64_t>(part.layout.get_size()));
    if (!isExact(describe(g.out[outer_] - (bands_ - 1) * bandRows_, part))) return false;
  }
  return true;
}

void IntegerConvolution::prepareWorkers(int threads) {
  const int64_t inner = positions_ / s_.geometry.out[outer_];
  const int64_t rows[] = {bandRows_, s_.geometry.out[outer_] - (bands_ - 1) * bandRows_};
  workers_.resize(static_cast<size_t>(threads));
  for (Worker &worker : workers_) {
    worker.sums = cpu::Scratch<int32_t>(bandRows_ * inner * parts_[0].filters);
    for (const Part &part : parts_)
      for (int64_t height : rows) {
        const auto pd = describe(height, part);
        worker.executions.emplace_back(pd, dnnl::convolution_forward(pd));
        cpu::DnnlExecution &execution = worker.executions.back();
        execution.bind(DNNL_ARG_SRC, pd.src_desc(), nullptr);
        execution.bind(DNNL_ARG_WEIGHTS, pd.weights_desc(), part.packed.get());
        execution.bind(DNNL_ARG_DST, pd.dst_desc(), worker.sums.get());
      }
  }
}

void IntegerConvolution::packLibraryWeight() {
  for (Part &part : parts_)
    cpu::dnnlReorder(part.plain, static_cast<const int8_t *>(s_.weight.data) + part.first * terms_, part.layout,
                     part.packed.get());
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

/// What each filter's sums get: the bias, and what the library has in them for in's zero point.
void IntegerConvolution::addZeroPoint() {
  writeZeroPoints(s_.finish, s_.geometry.filters, zeros_.get());
  const uint32_t zero = parts_.empty() ? 0 : wide(s_.inZero.at(0) + (s_.in.isSigned ? 128 : 0));
  for (int64_t o = 0; o < s_.geometry.filters; ++o) {
    const uint32_t taken = parts_.empty() ? 0 : zero * wide(filterSums_.get()[o]);
    more_.get()[o] = static_cast<int32_t>(wide(s_.bias ? s_.bias[o] : 0) - taken);
  }
}

/// in as u8 with its channels last, and its zero point all around. The library's kernels for i8 are fewer.
void IntegerConvolution::fillImages(DeviceCtx *ctx) {
  const int64_t width = padded_[2], pixels = s_.geometry.batch * padded_[0] * padded_[1] * width;
  ctx->parallelFor(pixels, std::min<int64_t>(width, 256), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin, to = 0; at < end; at = to) {
      to = std::min(end, (at / width + 1) * width);
      fillRow(at / width, at % width, at % width + (to - at));
    }
  });
}

/// Columns first to last - 1 of a row.
void IntegerConvolution::fillRow(int64_t row, int64_t first, int64_t last) {
  const ConvGeometry &g = s_.geometry;
  const int64_t plane = g.in[0] * g.in[1] * g.in[2], channels = g.channels;
  const uint8_t flip = s_.in.isSigned ? 0x80 : 0;
  const auto edge = static_cast<uint8_t>(static_cast<uint8_t>(s_.inZero.at(0)) ^ flip);
  const int64_t n = row / (padded_[0] * padded_[1]), d = row / padded_[1] % padded_[0] - g.padding[0],
                h = row % padded_[1] - g.padding[1];
  uint8_t *to = reinterpret_cast<uint8_t *>(images_.get()) + (row * padded_[2] + first) * channels;
  const bool inside = d >= 0 && d < g.in[0] && h >= 0 && h < g.in[1];
  // Columns of in; those before and after them are padding.
  const int64_t begin = inside ? std::clamp<int64_t>(first - g.padding[2], 0, g.in[2]) : 0;
  const int64_t end = inside ? std::clamp<int64_t>(last - g.padding[2], 0, g.in[2]) : 0;
  const int64_t count = (end - begin) * channels;
  const int64_t before = count > 0 ? (begin + g.padding[2] - first) * channels : (last - first) * channels;
  std::memset(to, edge, static_cast<size_t>(before));
  to += before;
  if (count == 0) return;
  std::memset(to + count, edge, static_cast<size_t>((last - first) * channels - before - count));
  if (g.channelsLast) {
    const auto *from =
        static_cast<const uint8_t *>(s_.in.data) + (n * plane + (d * g.in[1] + h) * g.in[2] + begin) * channels;
    for (int64_t i = 0; i < count; ++i) to[i] = from[i] ^ flip;
    return;
  }
  const auto *from = static_cast<const uint8_t *>(s_.in.data) + n * channels * plane + (d * g.in[1] + h) * g.in[2];
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t w = begin; w < end; ++w) to[(w - begin) * channels + c] = from[c * plane + w] ^ flip;
}

/// Sums of `count` positions and some filters, side by side, become the result.
void IntegerConvolution::finish(const int32_t *sums, int64_t sample, int64_t position, int64_t count, int64_t filter,
                                int64_t filters, void *out) const {
  const ConvGeometry &g = s_.geometry;
  const int64_t first = g.channelsLast ? (sample * positions_ + position) * g.filters + filter
                                       : (sample * g.filters + filter) * positions_ + position;
  finishSums(s_.finish, {sums, count, filters, filters, filter, more_.get(), zeros_.get(),
                         static_cast<char *>(out) + first * s_.finish.elementBytes(), g.channelsLast ? g.filters : 1,
                         g.channelsLast ? 1 : positions_});
}

void IntegerConvolution::runBand(Worker &worker, int64_t task, void *out) {
  const ConvGeometry &g = s_.geometry;
  const int64_t parts = static_cast<int64_t>(parts_.size());
  const int64_t part = task % parts, band = task / parts % bands_, sample = task / parts / bands_;
  const int64_t rows = std::min(bandRows_, g.out[outer_] - band * bandRows_), inner = positions_ / g.out[outer_];
  const int64_t image = g.channels * padded_[0] * padded_[1] * padded_[2], row = image / padded_[outer_];
  const Part &of = parts_[static_cast<size_t>(part)];
  cpu::DnnlExecution &execution = worker.executions[static_cast<size_t>(part * 2 + (band == bands_ - 1))];
  const char *from = movesImages() ? images_.get() : static_cast<const char *>(s_.in.data);
  execution.rebind(DNNL_ARG_SRC, from + sample * image + band * bandRows_ * g.stride[outer_] * row);
  execution.execute();
  finish(worker.sums.get(), sample, band * bandRows_ * inner, rows * inner, of.first, of.filters, out);
}

void IntegerConvolution::runLibrary(DeviceCtx *ctx, void *out) {
  if (movesImages()) fillImages(ctx);
  const int64_t tasks = s_.geometry.batch * bands_ * static_cast<int64_t>(parts_.size());
  cpu::forEachTask(ctx, tasks, workers_.size(),
                   [&](size_t worker, int64_t task) { runBand(workers_[worker], task, out); });
}

/// What one output position of a group sees, less the zero point.
void IntegerConvolution::gatherWindow(int64_t sample, int64_t group, int64_t position, int32_t zero,
                                      int16_t *to) const {
  const ConvGeometry &g = s_.geometry;
  const int64_t w0 = position % g.out[2] * g.stride[2] - g.padding[2],
                h0 = position / g.out[2] % g.out[1] * g.stride[1] - g.padding[1],
                d0 = position / g.out[2] / g.out[1] * g.stride[0] - g.padding[0];
  const std::array<int64_t, 5> steps = g.strides(g.channels, g.in);
  for (int64_t c = 0; c < own_; ++c) {
    const int64_t from = sample * steps[0] + (group * own_ + c) * steps[1];
    for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
      for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
        for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
          const int64_t d = d0 + kd * g.dilation[0], h = h0 + kh * g.dilation[1], w = w0 + kw * g.dilation[2];
          const bool inside = d >= 0 && d < g.in[0] && h >= 0 && h < g.in[1] && w >= 0 && w < g.in[2];
          *to++ = static_cast<int16_t>(inside ? s_.in.at(from + d * steps[2] + h * steps[3] + w * steps[4]) - zero : 0);
        }
  }
}

void IntegerConvolution::runDots(DeviceCtx *ctx, void *out) {
  const ConvGeometry &g = s_.geometry;
  const int64_t tall = 16, blocks = (positions_ + tall - 1) / tall;
  const int32_t zero = s_.inZero.at(0);
  ctx->parallelFor(g.batch * g.groups * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<int16_t> windows(static_cast<size_t>(tall * terms_));
    std::vector<int32_t> sums(static_cast<size_t>(tall * perGroup_));
    for (int64_t t = begin; t < end; ++t) {
      const int64_t sample = t / blocks / g.groups, group = t / blocks % g.groups, first = t % blocks * tall;
      const int64_t count = std::min(tall, positions_ - first);
      for (int64_t i = 0; i < count; ++i) gatherWindow(sample, group, first + i, zero, windows.data() + i * terms_);
      cpu::integerDots(windows.data(), count, centred_.get() + group * perGroup_ * terms_, perGroup_, terms_,
                       sums.data(), perGroup_, 1);
      finish(sums.data(), sample, first, count, group * perGroup_, perGroup_, out);
    }
  });
}

void IntegerConvolution::run(DeviceCtx *ctx, void *out) {
  if (!s_.constantWeight) parts_.empty() ? packDots() : packLibraryWeight();
  addZeroPoint();
  if (parts_.empty())
    runDots(ctx, out);
  else
    runLibrary(ctx, out);
}

} // namespace opc::ops
