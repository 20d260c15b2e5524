// Convolution by plain loops: exact in its order of summation, for f64 and for what oneDNN does not take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ConvGeometry.h"

namespace opc::ops {

/// The convolution, its adjoint and its gradient by the weight: one walk over the taps of the kernel and the rows in
/// which in and out meet there, and what each does with such a row.
template <class T> class DirectConvolution {
public:
  explicit DirectConvolution(const ConvGeometry &geometry) : g(geometry) {
    if (g.groups > 0) own = g.channels / g.groups, perGroup = g.filters / g.groups;
    xs = g.strides(g.channels, g.in);
    ys = g.strides(g.filters, g.out);
    ws = g.strides(own, g.kernel); // the weight seen as a batch of filters: the same layout as a tensor
  }

  /// out = convolution of in with weight, plus bias when it is not null. Parallel over samples and filters.
  void forward(DeviceCtx *ctx, const T *in, const T *weight, const T *bias, T *out) const {
    forEachPlane(ctx, g.batch * g.filters, outPlane() * own, [&](int64_t t) {
      const int64_t n = t / g.filters, o = t % g.filters, c0 = o / perGroup * own;
      T *y = out + n * ys[0] + o * ys[1];
      fill(y, g.out, ys, bias ? bias[o] : T(0));
      for (int64_t c = 0; c < own; ++c) {
        const T *x = in + n * xs[0] + (c0 + c) * xs[1];
        forEachTap([&](int64_t kd, int64_t kh, int64_t kw, int64_t at) {
          const T factor = weight[o * ws[0] + c * ws[1] + at];
          forEachRow(kd, kh, kw, [&](int64_t inRow, int64_t outRow, int64_t first, int64_t last) {
            const T *from = x + inRow;
            T *to = y + outRow;
            for (int64_t w = first; w < last; ++w) to[w * ys[4]] += factor * from[w * g.stride[2] * xs[4]];
          });
        });
      }
    });
  }

  /// in = transposed convolution of out with weight: what out's elements were made of gets its share of them. Parallel
  /// over samples and channels.
  void transposed(DeviceCtx *ctx, const T *out, const T *weight, T *in) const {
    forEachPlane(ctx, g.batch * g.channels, outPlane() * perGroup, [&](int64_t t) {
      const int64_t n = t / g.channels, c = t % g.channels, o0 = c / own * perGroup;
      T *x = in + n * xs[0] + c * xs[1];
      fill(x, g.in, xs, T(0));
      for (int64_t o = o0; o < o0 + perGroup; ++o) {
        const T *y = out + n * ys[0] + o * ys[1];
        forEachTap([&](int64_t kd, int64_t kh, int64_t kw, int64_t at) {
          const T factor = weight[o * ws[0] + c % own * ws[1] + at];
          forEachRow(kd, kh, kw, [&](int64_t inRow, int64_t outRow, int64_t first, int64_t last) {
            const T *from = y + outRow;
            T *to = x + inRow;
            for (int64_t w = first; w < last; ++w) to[w * g.stride[2] * xs[4]] += factor * from[w * ys[4]];
          });
        });
      }
    });
  }

  /// filterDiff = the gradient by the weight: for each tap the sum over samples and positions of out's gradient times
  /// the element of in that the tap saw. Parallel over the weight's filters and channels.
  void filterGradient(DeviceCtx *ctx, const T *in, const T *dy, T *filterDiff) const {
    forEachPlane(ctx, g.filters * own, g.batch * outPlane(), [&](int64_t t) {
      const int64_t o = t / own, c = t % own, channel = o / perGroup * own + c;
      forEachTap([&](int64_t kd, int64_t kh, int64_t kw, int64_t at) {
        T sum = 0;
        for (int64_t n = 0; n < g.batch; ++n)
          forEachRow(kd, kh, kw, [&](int64_t inRow, int64_t outRow, int64_t first, int64_t last) {
            const T *x = in + n * xs[0] + channel * xs[1] + inRow, *y = dy + n * ys[0] + o * ys[1] + outRow;
            for (int64_t w = first; w < last; ++w) sum += x[w * g.stride[2] * xs[4]] * y[w * ys[4]];
          });
        filterDiff[o * ws[0] + c * ws[1] + at] = sum;
      });
    });
  }

private:
  using Strides = std::array<int64_t, 5>;
  int64_t outPlane() const { return g.out[0] * g.out[1] * g.out[2]; }

  /// Calls f for each of n planes; `work` products a tap each.
  template <class F> void forEachPlane(DeviceCtx *ctx, int64_t n, int64_t work, F f) const {
    work *= g.kernel[0] * g.kernel[1] * g.kernel[2];
    ctx->parallelFor(n, std::max<int64_t>(1, 65536 / std::max<int64_t>(work, 1)), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) f(t);
    });
  }
  static void fill(T *plane, const Spatial &size, const Strides &s, T value) {
    for (int64_t d = 0; d < size[0]; ++d)
      for (int64_t h = 0; h < size[1]; ++h)
        for (int64_t w = 0; w < size[2]; ++w) plane[d * s[2] + h * s[3] + w * s[4]] = value;
  }
  /// Calls f(kd, kh, kw, offset in the weight's plane).
  template <class F> void forEachTap(F f) const {
    for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
      for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
        for (int64_t kw = 0; kw < g.kernel[2]; ++kw) f(kd, kh, kw, kd * ws[2] + kh * ws[3] + kw * ws[4]);
  }
  /// Calls f(row in a plane of in, row in a plane of out, first, last) for each row of out that a tap reaches: element
  /// w of it, from first to last - 1, sees element w * stride of in's row.
  template <class F> void forEachRow(int64_t kd, int64_t kh, int64_t kw, F f) const {
    const int64_t offset = kw * g.dilation[2] - g.padding[2], inside = g.in[2] - 1 - offset;
    const int64_t first = offset >= 0 ? 0 : (-offset + g.stride[2] - 1) / g.stride[2];
    const int64_t last = inside < 0 ? 0 : std::min(g.out[2], inside / g.stride[2] + 1);
    for (int64_t d = 0; d < g.out[0]; ++d) {
      const int64_t id = d * g.stride[0] + kd * g.dilation[0] - g.padding[0];
      if (id < 0 || id >= g.in[0]) continue;
      for (int64_t h = 0; h < g.out[1]; ++h) {
        const int64_t ih = h * g.stride[1] + kh * g.dilation[1] - g.padding[1];
        if (ih < 0 || ih >= g.in[1]) continue;
        f(id * xs[2] + ih * xs[3] + offset * xs[4], d * ys[2] + h * ys[3], first, last);
      }
    }
  }

  ConvGeometry g;
  int64_t own = 0, perGroup = 0; // channels and filters of a group
  Strides xs, ys, ws;
};

} // namespace opc::ops
