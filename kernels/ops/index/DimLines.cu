// Elements addressed along one axis: a thread for each element of the result, which goes along its line in order.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexRows.cuh"

namespace opc::cuda {
namespace {

template <class T> __device__ void dimGather(const LineArguments &a) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.at.n; i += itemStep()) {
    const LinePlace p = lineOf(a.at, i);
    const int64_t place = placeOf(a.at, i, true);
    static_cast<T *>(a.out)[p.other + p.k * a.at.otherStep] =
        place < 0 ? T(0) : static_cast<const T *>(a.in[0])[p.indexed + place * a.at.indexedStep];
  }
}

/// f(element of the result, its place in its line, offset of the line in index, in src) for each; the offset in index
/// is -1 where it has no such line.
template <class F> __device__ void forResults(const LineArguments &a, F f) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.count; i += itemStep()) {
    int64_t rest = i, place = 0, index = 0, other = 0;
    bool isLine = true;
#pragma unroll 1
    for (int d = a.at.rank; d-- > 0;) {
      const int64_t at = rest % a.at.indexedDims[d];
      rest /= a.at.indexedDims[d];
      if (d == a.at.dim) {
        place = at;
        continue;
      }
      isLine = isLine && at < a.at.dims[d];
      index += at * a.at.indexStrides[d];
      other += at * a.at.otherStrides[d];
    }
    f(i, place, isLine ? index : -1, other);
  }
}

template <class T> using SumOf = std::conditional_t<std::is_integral_v<Compute<T>>, uint64_t, Compute<T>>;

template <class T, bool kIsProduct> __device__ void dimCombine(const LineArguments &a) {
  using Sum = SumOf<T>;
  const T *base = static_cast<const T *>(a.in[0]), *src = static_cast<const T *>(a.in[1]);
  forResults(a, [&](int64_t i, int64_t place, int64_t index, int64_t other) {
    Sum sum = base ? static_cast<Sum>(load(base[i])) : Sum(0);
    for (int64_t k = 0; index >= 0 && k < a.at.length; ++k) {
      if (placeOf(a.at, index + k * a.at.indexStep, false) != place) continue;
      const Sum v = static_cast<Sum>(load(src[other + k * a.at.otherStep]));
      sum = kIsProduct ? sum * v : sum + v;
    }
    static_cast<T *>(a.out)[i] = stored<T>(static_cast<Compute<T>>(sum));
  });
}

/// The largest or the smallest of the element and those for it; NaN is both.
template <class T, bool kIsLargest> __device__ void dimChoose(const LineArguments &a) {
  const T *base = static_cast<const T *>(a.in[0]), *src = static_cast<const T *>(a.in[1]);
  forResults(a, [&](int64_t i, int64_t place, int64_t index, int64_t other) {
    Compute<T> best = load(base[i]);
    for (int64_t k = 0; index >= 0 && k < a.at.length; ++k) {
      if (placeOf(a.at, index + k * a.at.indexStep, false) != place) continue;
      const Compute<T> v = load(src[other + k * a.at.otherStep]);
      if (v != v || (kIsLargest ? best < v : v < best)) best = v;
    }
    static_cast<T *>(a.out)[i] = stored<T>(best);
  });
}

template <class T> __device__ void dimUpdate(const LineArguments &a) {
  forResults(a, [&](int64_t i, int64_t place, int64_t index, int64_t other) {
    int64_t k = index < 0 ? 0 : a.at.length;
    while (k-- > 0 && placeOf(a.at, index + k * a.at.indexStep, false) != place) {
    }
    static_cast<T *>(a.out)[i] =
        k < 0 ? static_cast<const T *>(a.in[0])[i] : static_cast<const T *>(a.in[1])[other + k * a.at.otherStep];
  });
}

/// f(element of index, its line, its place or -1): the results are of the shape of index.
template <class F> __device__ void forIndices(const LineArguments &a, F f) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.at.n; i += itemStep()) f(i, lineOf(a.at, i), placeOf(a.at, i, true));
}
/// f(k) for the elements of the line that name the same place, in order.
template <class F> __device__ void forSamePlace(const LineArguments &a, const LinePlace &p, int64_t place, F f) {
  for (int64_t k = 0; k < a.at.length; ++k)
    if (placeOf(a.at, p.index + k * a.at.indexStep, false) == place) f(k);
}

template <class T> __device__ void dimUpdateGrad(const LineArguments &a) {
  forIndices(a, [&](int64_t, const LinePlace &p, int64_t place) {
    int64_t last = -1;
    if (place >= 0) forSamePlace(a, p, place, [&](int64_t k) { last = k; });
    static_cast<T *>(a.out)[p.other + p.k * a.at.otherStep] =
        last == p.k ? static_cast<const T *>(a.in[0])[p.indexed + place * a.at.indexedStep] : T(0);
  });
}

/// dy * input * the product of the other factors of the place: in[] is dy, input, src.
template <class T> __device__ void dimMulGrad(const LineArguments &a) {
  const T *dy = static_cast<const T *>(a.in[0]), *base = static_cast<const T *>(a.in[1]),
          *src = static_cast<const T *>(a.in[2]);
  forIndices(a, [&](int64_t, const LinePlace &p, int64_t place) {
    double d = 0;
    if (place >= 0) {
      double product = 1;
      int64_t zeros = 0;
      forSamePlace(a, p, place, [&](int64_t k) {
        const double factor = static_cast<double>(load(src[p.other + k * a.at.otherStep]));
        if (factor == 0)
          ++zeros;
        else
          product *= factor;
      });
      const int64_t at = p.indexed + place * a.at.indexedStep;
      const double own = static_cast<double>(load(src[p.other + p.k * a.at.otherStep])),
                   all = static_cast<double>(load(dy[at])) * static_cast<double>(load(base[at])) * product;
      d = zeros == 0 ? all / own : zeros == 1 && own == 0 ? all : 0.0;
    }
    static_cast<T *>(a.out)[p.other + p.k * a.at.otherStep] = stored<T>(static_cast<Compute<T>>(d));
  });
}

/// in[] is weight, src, ddsrc. The formulas are the CPU's.
template <class T> __device__ void dimMulSecond(const LineArguments &a) {
  const T *weight = static_cast<const T *>(a.in[0]), *src = static_cast<const T *>(a.in[1]),
          *ddsrc = static_cast<const T *>(a.in[2]);
  forIndices(a, [&](int64_t, const LinePlace &p, int64_t place) {
    double d = 0;
    if (place >= 0) {
      double product = 1, slopes = 0, atZeros = 0;
      int64_t zeros = 0;
      forSamePlace(a, p, place, [&](int64_t k) {
        const double s = static_cast<double>(load(src[p.other + k * a.at.otherStep])),
                     v = static_cast<double>(load(ddsrc[p.other + k * a.at.otherStep]));
        if (s == 0) {
          ++zeros;
          atZeros += v;
        } else {
          product *= s;
          slopes += v / s;
        }
      });
      const double s = static_cast<double>(load(src[p.other + p.k * a.at.otherStep])),
                   v = static_cast<double>(load(ddsrc[p.other + p.k * a.at.otherStep]));
      const double others = zeros == 0   ? product / s * (slopes - v / s)
                            : zeros == 1 ? (s == 0 ? product * slopes : product / s * atZeros)
                                         : (zeros == 2 && s == 0 ? product * (atZeros - v) : 0.0);
      d = static_cast<double>(load(weight[p.indexed + place * a.at.indexedStep])) * others;
    }
    static_cast<T *>(a.out)[p.other + p.k * a.at.otherStep] = stored<T>(static_cast<Compute<T>>(d));
  });
}

} // namespace

/// Every index, before any is followed.
extern "C" __global__ void __launch_bounds__(256, 1) check_lines(const __grid_constant__ LineIndices a) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) placeOf(a, i, true);
}

#define OPC_LINE_MOVES(bytes, T)                                                                                       \
  OPC_KERNEL(dim_gather_##bytes, LineArguments, dimGather<T>)                                                          \
  OPC_KERNEL(dim_scatter_update_##bytes, LineArguments, dimUpdate<T>)                                                  \
  OPC_KERNEL(dim_scatter_update_grad_##bytes, LineArguments, dimUpdateGrad<T>)
#define OPC_LINE_SUMS(name, T)                                                                                         \
  OPC_KERNEL(dim_scatter_add_##name, LineArguments, dimCombine<T, false>)                                              \
  OPC_KERNEL(dim_scatter_mul_##name, LineArguments, dimCombine<T, true>)                                               \
  OPC_KERNEL(dim_scatter_max_##name, LineArguments, dimChoose<T, true>)                                                \
  OPC_KERNEL(dim_scatter_min_##name, LineArguments, dimChoose<T, false>)
#define OPC_LINE_FLOATS(name, T)                                                                                       \
  OPC_LINE_SUMS(name, T)                                                                                               \
  OPC_KERNEL(dim_scatter_mul_grad_##name, LineArguments, dimMulGrad<T>)                                                \
  OPC_KERNEL(dim_scatter_mul_grad_grad_##name, LineArguments, dimMulSecond<T>)
OPC_EACH_SIZE(OPC_LINE_MOVES)
OPC_EACH_FLOAT(OPC_LINE_FLOATS)
OPC_EACH_INTEGER(OPC_LINE_SUMS)

} // namespace opc::cuda
