// Updates of models: one thread an element, the formulas of the CPU; one model, or many of a table.
// SPDX-License-Identifier: Apache-2.0
#include "optimizer/Update.cuh"

namespace opc::cuda {
namespace {

using ops::UpdateTable;

template <class T> __device__ void sgd(const UpdateArguments &a, Items items) {
  const Update<T> u(a, items);
  const T rate = static_cast<T>(u.rate), decay = static_cast<T>(a.weightDecay);
  u.run([=](int64_t, T model, T gradient) { return model - rate * (gradient + decay * model); });
}

template <class T> __device__ void momentum(const UpdateArguments &a, Items items) {
  const Update<T> u(a, items);
  const T rate = static_cast<T>(u.rate), decay = rate * static_cast<T>(a.weightDecay), step = a.maximize ? rate : -rate;
  const T beta = static_cast<T>(a.beta), keep = static_cast<T>(a.keep);
  T *state = static_cast<T *>(a.momentum);
  u.run([=](int64_t i, T model, T g) {
    const T next = beta * state[i] + keep * g;
    state[i] = next;
    return model + (step * (a.nesterov ? g + beta * next : next) - decay * model);
  });
}

template <class T> __device__ void adam(const UpdateArguments &a, Items items) {
  const Update<T> u(a, items);
  const T step = static_cast<T>(u.rate / valueOf(a.correction1)),
          unit = static_cast<T>(1 / sqrt(valueOf(a.correction2))), decay = static_cast<T>(u.rate * a.weightDecay);
  const T b1 = static_cast<T>(a.beta1), b2 = static_cast<T>(a.beta2), r1 = static_cast<T>(a.rest1),
          r2 = static_cast<T>(a.rest2), epsilon = static_cast<T>(a.epsilon);
  T *m = static_cast<T *>(a.m), *v = static_cast<T *>(a.v), *most = static_cast<T *>(a.maxV);
  u.run([=](int64_t i, T model, T g) {
    const T mean = m[i] = b1 * m[i] + r1 * g, square = v[i] = b2 * v[i] + r2 * (g * g);
    T denominator = square;
    if (most) denominator = most[i] = most[i] < square ? square : most[i];
    return model - step * (mean / (sqrt(denominator) * unit + epsilon)) - decay * model;
  });
}

template <class T> __device__ void rmsProp(const UpdateArguments &a, Items items) {
  const Update<T> u(a, items);
  const T rate = static_cast<T>(u.rate), decay = rate * static_cast<T>(a.weightDecay);
  const T keep = static_cast<T>(a.beta1), take = static_cast<T>(a.rest1), epsilon = static_cast<T>(a.epsilon);
  T *square = static_cast<T *>(a.m), *mean = static_cast<T *>(a.v);
  u.run([=](int64_t i, T model, T g) {
    const T next = square[i] = keep * square[i] + take * (g * g);
    T variance = next;
    if (mean) {
      const T m = mean[i] = keep * mean[i] + take * g;
      variance = next - m * m;
    }
    return model - rate * (g / sqrt(variance + epsilon)) - decay * model;
  });
}

template <class T> __device__ void adagrad(const UpdateArguments &a, Items items) {
  const Update<T> u(a, items);
  const T rate = static_cast<T>(u.rate / (1 + valueOf(a.step) * a.rateDecay)),
          decay = rate * static_cast<T>(a.weightDecay), epsilon = static_cast<T>(a.epsilon);
  T *sum = static_cast<T *>(a.momentum);
  u.run([=](int64_t i, T model, T g) {
    const T next = sum[i] = sum[i] + g * g;
    return model - rate * (g / (sqrt(next) + epsilon)) - decay * model;
  });
}

/// model_diff + l1 * sign(model) + l2 * model, into `copy`.
template <class T> __device__ void regularize(const UpdateArguments &a, Items items) {
  const Update<T> u(a, items);
#pragma unroll 1
  for (int64_t i = items.first; i < items.end; i += items.step)
    static_cast<T *>(a.copy)[i] = u.gradient(i, static_cast<const T *>(a.model)[i]);
}

/// f(update, elements) for the chunks of this block.
template <class F> __device__ void ofChunks(const UpdateTable &t, F f) {
  const int64_t chunks = t.ends[t.count - 1];
  for (int64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    int32_t low = 0;
    for (int32_t high = t.count - 1; low < high;) { // the first that ends behind the chunk
      const int32_t middle = (low + high) / 2;
      if (t.ends[middle] > chunk)
        high = middle;
      else
        low = middle + 1;
    }
    const UpdateArguments &a = t.updates[low];
    const int64_t first = (chunk - (low ? t.ends[low - 1] : 0)) * UpdateTable::kChunk,
                  end = first + UpdateTable::kChunk < a.n ? first + UpdateTable::kChunk : a.n;
    f(a, Items{first + threadIdx.x, end, blockDim.x});
  }
}

} // namespace

#define OPC_UPDATE(op, f, name, T)                                                                                     \
  extern "C" __global__ void __launch_bounds__(256, 1) op##_##name(const __grid_constant__ UpdateArguments a) {        \
    f<T>(a, ofGrid(a));                                                                                                \
  }
// One for many, too.
#define OPC_UPDATES(op, f, name, T)                                                                                    \
  OPC_UPDATE(op##_update, f, name, T)                                                                                  \
  extern "C" __global__ void __launch_bounds__(256, 1) op##_updates_##name(const __grid_constant__ UpdateTable t) {    \
    ofChunks(t, [](const UpdateArguments &a, Items items) { f<T>(a, items); });                                        \
  }
OPC_UPDATES(sgd, sgd, f32, float)
OPC_UPDATES(sgd, sgd, f64, double)
OPC_UPDATES(momentum, momentum, f32, float)
OPC_UPDATES(momentum, momentum, f64, double)
OPC_UPDATES(adam, adam, f32, float)
OPC_UPDATES(adam, adam, f64, double)
OPC_UPDATES(rmsprop, rmsProp, f32, float)
OPC_UPDATES(rmsprop, rmsProp, f64, double)
OPC_UPDATES(adagrad, adagrad, f32, float)
OPC_UPDATES(adagrad, adagrad, f64, double)
OPC_UPDATE(l1_l2_regularize_gradient, regularize, f32, float)
OPC_UPDATE(l1_l2_regularize_gradient, regularize, f64, double)

} // namespace opc::cuda
