// The cross entropies of a softmax and their gradients: a warp a row.
// SPDX-License-Identifier: Apache-2.0
#include "IndexFault.cuh"
#include "softmax/SoftmaxRows.cuh"

namespace opc::cuda {
namespace {

/// prob becomes the softmax of a row's logits; gives the log of the sum of exponentials. `logit` picks it out of an
/// element.
template <class T, class E, class F> __device__ Compute<T> softmaxRow(const E &row, F logit, T *prob) {
  using C = Compute<T>;
  C top, sum;
  sumsOf(row, logit, &top, &sum);
  if (top == -static_cast<C>(scalar::f32::kInf64)) { // as on the CPU: 0 stands for the largest of nothing
    top = 0;
    sum = 0;
    row.each([&](int64_t, auto v) { sum += exp(logit(v)); });
    sum = warpSum(sum);
  }
  const C inverse = C(1) / sum;
  row.each([&](int64_t i, auto v) { prob[i] = stored<T>(static_cast<C>(exp(logit(v) - top) * inverse)); });
  return log(sum) + top;
}

/// The classes that a row of this device has: they may be a piece of all.
struct Classes {
  int64_t begin, whole;
};

/// The place of a row's class in the piece, outside of it where another device has the class; -1 for a label outside
/// all classes, which is reported.
template <class I> __device__ int64_t classOf(const void *labels, int64_t r, Classes classes, IndexFault *fault) {
  const auto k = static_cast<int64_t>(static_cast<const I *>(labels)[r]);
  if (k >= 0 && k < classes.whole) return k >= classes.begin ? k - classes.begin : -1;
  if (lane() == 0) reportIndex(fault, r, k);
  return -1;
}

template <class T, class I>
__device__ void sparse(const void *in, const void *labels, void *prob, void *out, int64_t rows, int64_t n,
                       Classes classes, IndexFault *fault) {
#pragma unroll 1
  for (int64_t r = firstRow(); r < rows; r += rowStep()) {
    const T *x = static_cast<const T *>(in) + r * n;
    const int64_t k = classOf<I>(labels, r, classes, fault);
    const Compute<T> log = softmaxRow(elementsOf(x, n), Itself{}, static_cast<T *>(prob) + r * n);
    if (lane() == 0) static_cast<T *>(out)[r] = stored<T>(static_cast<Compute<T>>(k < 0 ? log : log - load(x[k])));
  }
}

template <class T>
__device__ void dense(const void *in, const void *labels, void *prob, void *out, int64_t rows, int64_t n) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t r = firstRow(); r < rows; r += rowStep()) {
    const T *x = static_cast<const T *>(in) + r * n, *target = static_cast<const T *>(labels) + r * n;
    const auto row = elementsOf(x, target, n);
    const C log = softmaxRow(row, [](TwoNumbers<C> v) { return v.a; }, static_cast<T *>(prob) + r * n);
    C sum = 0; // a class without probability adds nothing, even when its logit is minus infinity
    row.each([&](int64_t, TwoNumbers<C> v) { sum += v.b == C(0) ? C(0) : v.b * (log - v.a); });
    sum = warpSum(sum);
    if (lane() == 0) static_cast<T *>(out)[r] = stored<T>(n > 0 ? sum : C(0));
  }
}

template <class T, class I>
__device__ void sparseGrad(const void *labels, const void *grad, const void *in, void *dx, int64_t rows, int64_t n,
                           Classes classes, IndexFault *fault) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t r = firstRow(); r < rows; r += rowStep()) {
    const int64_t k = classOf<I>(labels, r, classes, fault);
    const C dy = load(static_cast<const T *>(grad)[r]);
    const T *prob = static_cast<const T *>(in) + r * n;
    for (int64_t i = lane(); i < n; i += kLanes) {
      const C p = load(prob[i]);
      static_cast<T *>(dx)[r * n + i] = stored<T>(static_cast<C>(dy * (i == k ? p - C(1) : p)));
    }
  }
}

template <class T>
__device__ void denseGrad(const void *labels, const void *grad, const void *in, void *dx, int64_t rows, int64_t n) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t r = firstRow(); r < rows; r += rowStep()) {
    const C dy = load(static_cast<const T *>(grad)[r]);
    const T *prob = static_cast<const T *>(in) + r * n, *label = static_cast<const T *>(labels) + r * n;
    T *result = static_cast<T *>(dx) + r * n;
    const auto row = elementsOf(label, n);
    C total = 0;
    row.each([&](int64_t, C v) { total += v; });
    total = warpSum(total);
    row.each([&](int64_t i, C v) { result[i] = stored<T>(static_cast<C>(dy * (load(prob[i]) * total - v))); });
  }
}

} // namespace

#define OPC_ROWS(kernel, body, out0, out1)                                                                             \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      kernel(const void *a, const void *b, out0 c, out1 d, int64_t rows, int64_t n) {                                  \
    body(a, b, c, d, rows, n);                                                                                         \
  }
#define OPC_SPARSE_ROWS(kernel, body, out0, out1)                                                                      \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      kernel(const void *a, const void *b, out0 c, out1 d, int64_t rows, int64_t n, int64_t begin, int64_t whole,      \
             IndexFault *fault) {                                                                                      \
    body(a, b, c, d, rows, n, {begin, whole}, fault);                                                                  \
  }
#define OPC_SPARSE(name, T, label, I)                                                                                  \
  OPC_SPARSE_ROWS(sparse_softmax_cross_entropy_##name##_##label, (sparse<T, I>), void *, void *)                       \
  OPC_SPARSE_ROWS(sparse_softmax_cross_entropy_grad_##name##_##label, (sparseGrad<T, I>), const void *, void *)
#define OPC_CROSS_ENTROPY(name, T)                                                                                     \
  OPC_SPARSE(name, T, i32, int32_t)                                                                                    \
  OPC_SPARSE(name, T, i64, int64_t)                                                                                    \
  OPC_ROWS(softmax_cross_entropy_##name, dense<T>, void *, void *)                                                     \
  OPC_ROWS(softmax_cross_entropy_grad_##name, denseGrad<T>, const void *, void *)
OPC_EACH_FLOAT(OPC_CROSS_ENTROPY)

} // namespace opc::cuda
