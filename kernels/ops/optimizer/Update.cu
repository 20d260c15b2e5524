// Updates of models: one thread an element, the formulas of the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "optimizer/UpdateArguments.h"

namespace opc::cuda {
namespace {

using ops::DeviceScalar;
using ops::UpdateArguments;

__device__ double valueOf(const DeviceScalar &s) {
  if (!s.data) return s.value;
  return s.isDouble ? *static_cast<const double *>(s.data) : static_cast<double>(*static_cast<const float *>(s.data));
}

/// What the updates of one task have in common.
template <class T> struct Update {
  const UpdateArguments &a;
  double rate;
  T scale;
  __device__ explicit Update(const UpdateArguments &arguments)
      : a(arguments), rate(valueOf(arguments.rate) * arguments.rateScale),
        scale(static_cast<T>(arguments.scale * valueOf(arguments.scaleBy))) {}

  /// Element i of the model becomes f(i, element, gradient).
  template <class F> __device__ void run(F f) const {
    if (a.skipIf && *a.skipIf != 0) return;
    T *model = static_cast<T *>(a.model);
    for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
      const T old = model[i], next = f(i, old, gradient(i, old));
      model[i] = next;
      if (a.copyKind == 1) static_cast<float16 *>(a.copy)[i] = float16(static_cast<float>(next));
      if (a.copyKind == 2) static_cast<bfloat16 *>(a.copy)[i] = bfloat16(static_cast<float>(next));
    }
  }

private:
  __device__ T gradient(int64_t i, T model) const {
    T diff;
    if (a.diffKind == 1)
      diff = static_cast<T>(static_cast<float>(static_cast<const float16 *>(a.diff)[i]));
    else if (a.diffKind == 2)
      diff = static_cast<T>(static_cast<float>(static_cast<const bfloat16 *>(a.diff)[i]));
    else
      diff = static_cast<const T *>(a.diff)[i];
    const T sign = static_cast<T>(model > T(0)) - static_cast<T>(model < T(0));
    return diff * scale + static_cast<T>(a.l1) * sign + static_cast<T>(a.l2) * model;
  }
};

template <class T> __device__ void sgd(const UpdateArguments &a) {
  const Update<T> u(a);
  const T rate = static_cast<T>(u.rate), decay = static_cast<T>(a.weightDecay);
  u.run([=](int64_t, T model, T gradient) { return model - rate * (gradient + decay * model); });
}

template <class T> __device__ void momentum(const UpdateArguments &a) {
  const Update<T> u(a);
  const T rate = static_cast<T>(u.rate), decay = rate * static_cast<T>(a.weightDecay), step = a.maximize ? rate : -rate;
  const T beta = static_cast<T>(a.beta), keep = static_cast<T>(a.keep);
  T *state = static_cast<T *>(a.momentum);
  u.run([=](int64_t i, T model, T g) {
    const T next = beta * state[i] + keep * g;
    state[i] = next;
    return model + (step * (a.nesterov ? g + beta * next : next) - decay * model);
  });
}

__device__ inline float root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }

template <class T> __device__ void adam(const UpdateArguments &a) {
  const Update<T> u(a);
  const T step = static_cast<T>(u.rate / valueOf(a.correction1)),
          unit = static_cast<T>(1 / sqrt(valueOf(a.correction2))), decay = static_cast<T>(u.rate * a.weightDecay);
  const T b1 = static_cast<T>(a.beta1), b2 = static_cast<T>(a.beta2), r1 = static_cast<T>(a.rest1),
          r2 = static_cast<T>(a.rest2), epsilon = static_cast<T>(a.epsilon);
  T *m = static_cast<T *>(a.m), *v = static_cast<T *>(a.v), *most = static_cast<T *>(a.maxV);
  u.run([=](int64_t i, T model, T g) {
    const T mean = m[i] = b1 * m[i] + r1 * g, square = v[i] = b2 * v[i] + r2 * (g * g);
    T denominator = square;
    if (most) denominator = most[i] = most[i] < square ? square : most[i];
    return model - step * (mean / (root(denominator) * unit + epsilon)) - decay * model;
  });
}

} // namespace

#define OPC_UPDATE(op, f, name, T)                                                                                     \
  extern "C" __global__ void __launch_bounds__(256) op##_##name(const __grid_constant__ UpdateArguments a) { f<T>(a); }
OPC_UPDATE(sgd_update, sgd, f32, float)
OPC_UPDATE(sgd_update, sgd, f64, double)
OPC_UPDATE(momentum_update, momentum, f32, float)
OPC_UPDATE(momentum_update, momentum, f64, double)
OPC_UPDATE(adam_update, adam, f32, float)
OPC_UPDATE(adam_update, adam, f64, double)

/// 1 - beta^(step + 1).
extern "C" __global__ void __launch_bounds__(32)
    adam_bias_correction_factor(const int64_t *step, double beta, void *out, int32_t isDouble) {
  if (threadIdx.x != 0 || blockIdx.x != 0) return;
  const double value = 1 - pow(beta, static_cast<double>(*step) + 1);
  if (isDouble)
    *static_cast<double *>(out) = value;
  else
    *static_cast<float *>(out) = static_cast<float>(value);
}

} // namespace opc::cuda
