// Convolution by plain loops: exact in its order of summation, for f64 and for what oneDNN does not take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ConvGeometry.h"

#include <algorithm>

namespace opc::ops {

/// out = convolution of in with weight, plus bias when it is not null. Parallel over samples and filters.
template <class T>
void directConvolution(DeviceCtx *ctx, const ConvGeometry &g, const T *in, const T *weight, const T *bias, T *out) {
  const auto xs = g.strides(g.channels, g.in), ys = g.strides(g.filters, g.out);
  const int64_t own = g.channels / g.groups, perGroup = g.groups > 0 ? g.filters / g.groups : 0;
  // The weight seen as a batch of filters: the same layout as a tensor.
  const auto ws = g.strides(own, g.kernel);
  const int64_t work = g.out[0] * g.out[1] * g.out[2] * own * g.kernel[0] * g.kernel[1] * g.kernel[2];
  ctx->parallelFor(
      g.batch * g.filters, std::max<int64_t>(1, 65536 / std::max<int64_t>(work, 1)), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const int64_t n = t / g.filters, o = t % g.filters, c0 = o / perGroup * own;
          T *y = out + n * ys[0] + o * ys[1];
          for (int64_t d = 0; d < g.out[0]; ++d)
            for (int64_t h = 0; h < g.out[1]; ++h)
              for (int64_t w = 0; w < g.out[2]; ++w) y[d * ys[2] + h * ys[3] + w * ys[4]] = bias ? bias[o] : T(0);
          for (int64_t c = 0; c < own; ++c)
            for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
              for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
                for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
                  const T factor = weight[o * ws[0] + c * ws[1] + kd * ws[2] + kh * ws[3] + kw * ws[4]];
                  // Output columns whose input lies inside.
                  const int64_t offset = kw * g.dilation[2] - g.padding[2];
                  const int64_t first = offset >= 0 ? 0 : (-offset + g.stride[2] - 1) / g.stride[2];
                  const int64_t last =
                      g.in[2] - 1 - offset < 0 ? 0 : std::min(g.out[2], (g.in[2] - 1 - offset) / g.stride[2] + 1);
                  for (int64_t d = 0; d < g.out[0]; ++d) {
                    const int64_t id = d * g.stride[0] + kd * g.dilation[0] - g.padding[0];
                    if (id < 0 || id >= g.in[0]) continue;
                    for (int64_t h = 0; h < g.out[1]; ++h) {
                      const int64_t ih = h * g.stride[1] + kh * g.dilation[1] - g.padding[1];
                      if (ih < 0 || ih >= g.in[1]) continue;
                      const T *row = in + n * xs[0] + (c0 + c) * xs[1] + id * xs[2] + ih * xs[3] + offset * xs[4];
                      T *to = y + d * ys[2] + h * ys[3];
                      for (int64_t w = first; w < last; ++w) to[w * ys[4]] += factor * row[w * g.stride[2] * xs[4]];
                    }
                  }
                }
        }
      });
}

/// in = transposed convolution of out with weight: what out's elements were made of gets its share of them. Parallel
/// over samples and channels.
template <class T>
void directTransposedConvolution(DeviceCtx *ctx, const ConvGeometry &g, const T *out, const T *weight, T *in) {
  const auto xs = g.strides(g.channels, g.in), ys = g.strides(g.filters, g.out);
  const int64_t own = g.channels / g.groups, perGroup = g.filters / g.groups;
  const auto ws = g.strides(own, g.kernel);
  const int64_t work = g.out[0] * g.out[1] * g.out[2] * perGroup * g.kernel[0] * g.kernel[1] * g.kernel[2];
  ctx->parallelFor(
      g.batch * g.channels, std::max<int64_t>(1, 65536 / std::max<int64_t>(work, 1)), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const int64_t n = t / g.channels, c = t % g.channels, o0 = c / own * perGroup;
          T *x = in + n * xs[0] + c * xs[1];
          for (int64_t d = 0; d < g.in[0]; ++d)
            for (int64_t h = 0; h < g.in[1]; ++h)
              for (int64_t w = 0; w < g.in[2]; ++w) x[d * xs[2] + h * xs[3] + w * xs[4]] = T(0);
          for (int64_t o = o0; o < o0 + perGroup; ++o)
            for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
              for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
                for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
                  const T factor = weight[o * ws[0] + c % own * ws[1] + kd * ws[2] + kh * ws[3] + kw * ws[4]];
                  for (int64_t d = 0; d < g.out[0]; ++d) {
                    const int64_t id = d * g.stride[0] + kd * g.dilation[0] - g.padding[0];
                    if (id < 0 || id >= g.in[0]) continue;
                    for (int64_t h = 0; h < g.out[1]; ++h) {
                      const int64_t ih = h * g.stride[1] + kh * g.dilation[1] - g.padding[1];
                      if (ih < 0 || ih >= g.in[1]) continue;
                      const T *row = out + n * ys[0] + o * ys[1] + d * ys[2] + h * ys[3];
                      for (int64_t w = 0; w < g.out[2]; ++w) {
                        const int64_t iw = w * g.stride[2] + kw * g.dilation[2] - g.padding[2];
                        if (iw >= 0 && iw < g.in[2]) x[id * xs[2] + ih * xs[3] + iw * xs[4]] += factor * row[w * ys[4]];
                      }
                    }
                  }
                }
        }
      });
}

/// filterDiff = the convolution's gradient by its weight: for each tap the sum over samples and positions of out's
/// gradient times the element of in that the tap saw. Parallel over the weight's filters and channels.
template <class T>
void directFilterGradient(DeviceCtx *ctx, const ConvGeometry &g, const T *in, const T *dy, T *filterDiff) {
  const auto xs = g.strides(g.channels, g.in), ys = g.strides(g.filters, g.out);
  const int64_t own = g.channels / g.groups, perGroup = g.filters / g.groups;
  const auto ws = g.strides(own, g.kernel);
  const int64_t work = g.batch * g.out[0] * g.out[1] * g.out[2] * g.kernel[0] * g.kernel[1] * g.kernel[2];
  ctx->parallelFor(g.filters * own, std::max<int64_t>(1, 65536 / std::max<int64_t>(work, 1)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t t = begin; t < end; ++t) {
                       const int64_t o = t / own, c = t % own, channel = o / perGroup * own + c;
                       for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
                         for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
                           for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
                             T sum = 0;
                             for (int64_t n = 0; n < g.batch; ++n)
                               for (int64_t d = 0; d < g.out[0]; ++d) {
                                 const int64_t id = d * g.stride[0] + kd * g.dilation[0] - g.padding[0];
                                 if (id < 0 || id >= g.in[0]) continue;
                                 for (int64_t h = 0; h < g.out[1]; ++h) {
                                   const int64_t ih = h * g.stride[1] + kh * g.dilation[1] - g.padding[1];
                                   if (ih < 0 || ih >= g.in[1]) continue;
                                   const T *x = in + n * xs[0] + channel * xs[1] + id * xs[2] + ih * xs[3];
                                   const T *y = dy + n * ys[0] + o * ys[1] + d * ys[2] + h * ys[3];
                                   for (int64_t w = 0; w < g.out[2]; ++w) {
                                     const int64_t iw = w * g.stride[2] + kw * g.dilation[2] - g.padding[2];
                                     if (iw >= 0 && iw < g.in[2]) sum += x[iw * xs[4]] * y[w * ys[4]];
                                   }
                                 }
                               }
                             filterDiff[o * ws[0] + c * ws[1] + kd * ws[2] + kh * ws[3] + kw * ws[4]] = sum;
                           }
                     }
                   });
}

} // namespace opc::ops
