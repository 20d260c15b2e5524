// lamb_update and lars_update: the sums of squares of a layer in parts, whose number depends on its size alone, and the
// steps that they scale.
// SPDX-License-Identifier: Apache-2.0
#include "BlockJoin.cuh"
#include "optimizer/Update.cuh"

namespace opc::cuda {
namespace {

/// The sums over a block, in its first thread.
__device__ void sumPairs(double *first, double *second) {
  __shared__ double x[kJoinThreads], y[kJoinThreads];
  x[threadIdx.x] = *first;
  y[threadIdx.x] = *second;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  *first = joinParts(x, Add{});
  *second = joinParts(y, Add{});
}

/// The part of this block: of the squares of the model and of other(i, model, gradient).
template <class T, class F> __device__ void squares(const Update<T> &u, F other) {
  double w = 0, d = 0;
#pragma unroll 1
  for (int64_t i = firstItem(); i < u.a.n; i += itemStep()) {
    const T model = static_cast<const T *>(u.a.model)[i];
    const double x = static_cast<double>(model), y = static_cast<double>(other(i, model, u.gradient(i, model)));
    w += x * x;
    d += y * y;
  }
  sumPairs(&w, &d);
  if (threadIdx.x == 0) {
    u.a.partials[2 * blockIdx.x] = w;
    u.a.partials[2 * blockIdx.x + 1] = d;
  }
}

/// A step's direction, of the means. The powers of beta are those of this step when `arePowersNext` is false.
template <class T> struct LambDirection {
  T b1, b2, r1, r2, first, second, epsilon;
  __device__ LambDirection(const UpdateArguments &a, bool arePowersNext)
      : b1(static_cast<T>(a.beta1)), b2(static_cast<T>(a.beta2)), r1(static_cast<T>(a.rest1)),
        r2(static_cast<T>(a.rest2)), epsilon(static_cast<T>(a.epsilon)) {
    double correction1 = valueOf(a.correction1), correction2 = valueOf(a.correction2);
    if (a.power1) correction1 = 1 - static_cast<double>(power(a.power1, arePowersNext ? b1 : T(1)));
    if (a.power2) correction2 = 1 - static_cast<double>(power(a.power2, arePowersNext ? b2 : T(1)));
    first = static_cast<T>(1 / correction1);
    second = static_cast<T>(1 / sqrt(correction2));
  }
  static __device__ T power(const void *p, T factor) { return *static_cast<const T *>(p) * factor; }
  __device__ T operator()(T m, T v) const { return m * first / (sqrt(v) * second + epsilon); }
  __device__ T nextM(T m, T g) const { return b1 * m + r1 * g; }
  __device__ T nextV(T v, T g) const { return b2 * v + r2 * (g * g); }
};

/// What lamb_update would compare; the means stay.
template <class T> __device__ void lambNorms(const UpdateArguments &a) {
  const Update<T> u(a);
  const LambDirection<T> d(a, true);
  const T *m = static_cast<const T *>(a.m), *v = static_cast<const T *>(a.v);
  squares<T>(u, [=](int64_t i, T, T g) { return d(d.nextM(m[i], g), d.nextV(v[i], g)); });
}
/// The means take up the gradient; then the same.
template <class T> __device__ void lambTake(const UpdateArguments &a) {
  const Update<T> u(a);
  if (!u.wanted()) return;
  const LambDirection<T> d(a, false);
  T *m = static_cast<T *>(a.m), *v = static_cast<T *>(a.v);
  squares<T>(u, [=](int64_t i, T, T g) {
    const T mean = m[i] = d.nextM(m[i], g), square = v[i] = d.nextV(v[i], g);
    return d(mean, square);
  });
}
template <class T> __device__ void lambPowers(const UpdateArguments &a) {
  if (threadIdx.x != 0 || blockIdx.x != 0 || !Update<T>(a).wanted()) return;
  if (a.power1) *static_cast<T *>(a.power1) *= static_cast<T>(a.beta1);
  if (a.power2) *static_cast<T *>(a.power2) *= static_cast<T>(a.beta2);
}
template <class T> __device__ void lambStep(const UpdateArguments &a) {
  const Update<T> u(a);
  const double model = sqrt(a.norms[0]), other = sqrt(a.norms[1]);
  const T rate = static_cast<T>(u.rate * (model > 0 && other > 0 ? model / other : 1)),
          decay = static_cast<T>(a.weightDecay);
  const LambDirection<T> d(a, false);
  T *m = static_cast<T *>(a.m), *v = static_cast<T *>(a.v);
  u.run([=](int64_t i, T old, T g) {
    if (a.takesMoments) {
      m[i] = d.nextM(m[i], g);
      v[i] = d.nextV(v[i], g);
    }
    return old - rate * (d(m[i], v[i]) + decay * old);
  });
}

template <class T> __device__ void larsNorms(const UpdateArguments &a) {
  squares<T>(Update<T>(a), [](int64_t, T, T g) { return g; });
}
template <class T> __device__ void larsStep(const UpdateArguments &a) {
  const Update<T> u(a);
  const double model = sqrt(a.norms[0]), other = sqrt(a.norms[1]), weightDecay = static_cast<T>(a.weightDecay);
  const double local = model > 0 && other > 0 ? a.coefficient * model / (a.epsilon + other + weightDecay * model) : 1;
  const T rate = static_cast<T>(u.rate * local), shrink = rate * static_cast<T>(a.weightDecay),
          beta = static_cast<T>(a.beta);
  T *momentum = static_cast<T *>(a.momentum);
  u.run([=](int64_t i, T old, T g) {
    const T next = momentum[i] = beta * momentum[i] - rate * g;
    return old + next - shrink * old;
  });
}

} // namespace

/// The sums over all parts.
extern "C" __global__ void __launch_bounds__(256, 1) sum_norms(const double *partials, int64_t parts, double *norms) {
  double w = 0, d = 0;
  for (int64_t i = threadIdx.x; i < parts; i += kJoinThreads) {
    w += partials[2 * i];
    d += partials[2 * i + 1];
  }
  sumPairs(&w, &d);
  if (threadIdx.x == 0) {
    norms[0] = w;
    norms[1] = d;
  }
}

#define OPC_LAYERS(name, T)                                                                                            \
  OPC_KERNEL(lamb_norms_##name, UpdateArguments, lambNorms<T>)                                                         \
  OPC_KERNEL(lamb_take_##name, UpdateArguments, lambTake<T>)                                                           \
  OPC_KERNEL(lamb_powers_##name, UpdateArguments, lambPowers<T>)                                                       \
  OPC_KERNEL(lamb_update_##name, UpdateArguments, lambStep<T>)                                                         \
  OPC_KERNEL(lars_norms_##name, UpdateArguments, larsNorms<T>)                                                         \
  OPC_KERNEL(lars_update_##name, UpdateArguments, larsStep<T>)
OPC_LAYERS(f32, float)
OPC_LAYERS(f64, double)

} // namespace opc::cuda
