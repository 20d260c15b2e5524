// tril and triu, pads of the edge, patches of images, and the gradients of the last two: a thread for each element of
// the result, which adds up what goes there in the CPU's order.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "shape/PlaneArguments.h"

namespace opc::cuda {
namespace {

using ops::EdgeArguments;
using ops::PatchArguments;

/// Keeps column c of row i where c - i <= diagonal, or with `isUpper` where c - i >= diagonal.
template <class T>
__device__ void triangle(const void *in, void *out, uint64_t fill, int64_t n, int64_t rows, int64_t columns,
                         int64_t diagonal, int32_t isUpper) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < n; i += itemStep()) {
    const int64_t d = i % columns - i / columns % rows;
    const bool isKept = isUpper ? d >= diagonal : d <= diagonal;
    static_cast<T *>(out)[i] = isKept ? static_cast<const T *>(in)[i] : static_cast<T>(fill);
  }
}

/// Where entry o of a padded axis comes from.
__device__ inline int64_t sourceOf(int64_t o, int64_t before, int64_t n, bool reflects) {
  const int64_t i = o - before;
  if (reflects) return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
  return i < 0 ? 0 : i >= n ? n - 1 : i;
}
template <class T> __device__ void edgePad(const EdgeArguments &a) {
  const int64_t all = a.planes * a.outHeight * a.outWidth;
#pragma unroll 1
  for (int64_t o = firstItem(); o < all; o += itemStep()) {
    const int64_t r = sourceOf(o / a.outWidth % a.outHeight, a.top, a.height, a.reflects),
                  c = sourceOf(o % a.outWidth, a.left, a.width, a.reflects), plane = o / (a.outHeight * a.outWidth);
    static_cast<T *>(a.out)[o] = static_cast<const T *>(a.in)[(plane * a.height + r) * a.width + c];
  }
}

/// f(o) for the entries of a padded axis that come from entry i, in order.
template <class F> __device__ void forCopies(int64_t i, int64_t before, int64_t n, int64_t padded, bool reflects, F f) {
  if (reflects) {
    if (i > 0 && i <= before) f(before - i);
    f(before + i);
    const int64_t mirrored = 2 * (n - 1) - i + before;
    if (i < n - 1 && mirrored < padded) f(mirrored);
    return;
  }
  const int64_t first = i == 0 ? 0 : before + i, last = i == n - 1 ? padded - 1 : before + i;
  for (int64_t o = first; o <= last; ++o) f(o);
}
template <class T> __device__ void edgePadGrad(const EdgeArguments &a) {
  const int64_t all = a.planes * a.height * a.width;
#pragma unroll 1
  for (int64_t i = firstItem(); i < all; i += itemStep()) {
    const int64_t plane = i / (a.height * a.width);
    Compute<T> sum = 0;
    forCopies(i / a.width % a.height, a.top, a.height, a.outHeight, a.reflects, [&](int64_t r) {
      forCopies(i % a.width, a.left, a.width, a.outWidth, a.reflects, [&](int64_t c) {
        sum += load(static_cast<const T *>(a.in)[(plane * a.outHeight + r) * a.outWidth + c]);
      });
    });
    static_cast<T *>(a.out)[i] = stored<T>(sum);
  }
}

template <class T> __device__ void unfold(const PatchArguments &a) {
  const int64_t taps = a.kh * a.kw, positions = a.oh * a.ow, all = a.planes * taps * positions;
#pragma unroll 1
  for (int64_t o = firstItem(); o < all; o += itemStep()) {
    const int64_t at = o % positions, tap = o / positions % taps, plane = o / positions / taps;
    const int64_t y = at / a.ow * a.strideH + tap / a.kw * a.dilationH - a.padH,
                  x = at % a.ow * a.strideW + tap % a.kw * a.dilationW - a.padW;
    const bool isInside = y >= 0 && y < a.h && x >= 0 && x < a.w;
    static_cast<T *>(a.out)[o] = isInside ? static_cast<const T *>(a.in)[(plane * a.h + y) * a.w + x] : T(0);
  }
}
/// Of each pixel the patches that cover it: a.in has the columns, a.out the image.
template <class T> __device__ void fold(const PatchArguments &a) {
  const int64_t taps = a.kh * a.kw, all = a.planes * a.h * a.w;
#pragma unroll 1
  for (int64_t i = firstItem(); i < all; i += itemStep()) {
    const int64_t plane = i / (a.h * a.w), y = i / a.w % a.h, x = i % a.w;
    Compute<T> sum = 0;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t dy = y + a.padH - tap / a.kw * a.dilationH, dx = x + a.padW - tap % a.kw * a.dilationW;
      if (dy < 0 || dx < 0 || dy % a.strideH != 0 || dx % a.strideW != 0) continue;
      const int64_t oy = dy / a.strideH, ox = dx / a.strideW;
      if (oy >= a.oh || ox >= a.ow) continue;
      sum += load(static_cast<const T *>(a.in)[((plane * taps + tap) * a.oh + oy) * a.ow + ox]);
    }
    static_cast<T *>(a.out)[i] = stored<T>(sum);
  }
}

} // namespace

#define OPC_PLANE_MOVES(bytes, T)                                                                                      \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      triangle_##bytes(const void *in, void *out, uint64_t fill, int64_t n, int64_t rows, int64_t columns,             \
                       int64_t diagonal, int32_t isUpper) {                                                            \
    triangle<T>(in, out, fill, n, rows, columns, diagonal, isUpper);                                                   \
  }                                                                                                                    \
  OPC_KERNEL(edge_pad_##bytes, EdgeArguments, edgePad<T>)                                                              \
  OPC_KERNEL(unfold_##bytes, PatchArguments, unfold<T>)
#define OPC_PLANE_SUMS(name, T)                                                                                        \
  OPC_KERNEL(edge_pad_grad_##name, EdgeArguments, edgePadGrad<T>)                                                      \
  OPC_KERNEL(fold_##name, PatchArguments, fold<T>)
OPC_EACH_SIZE(OPC_PLANE_MOVES)
OPC_EACH_FLOAT(OPC_PLANE_SUMS)

} // namespace opc::cuda
