// What the updates of models have in common on the device: one thread an element, the formulas of the CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceTypes.cuh"
#include "optimizer/UpdateArguments.h"

namespace opc::cuda {

using ops::DeviceScalar;
using ops::UpdateArguments;

__device__ inline double valueOf(const DeviceScalar &s) {
  if (!s.data) return s.value;
  if (s.kind == 2) return static_cast<double>(*static_cast<const int64_t *>(s.data));
  return s.kind == 1 ? *static_cast<const double *>(s.data) : static_cast<double>(*static_cast<const float *>(s.data));
}

/// The elements that a thread takes.
struct Items {
  int64_t first, end, step;
};
__device__ inline Items ofGrid(const UpdateArguments &a) { return {firstItem(), a.n, itemStep()}; }

/// What the updates of one task have in common.
template <class T> struct Update {
  const UpdateArguments &a;
  Items items;
  double rate;
  T scale;
  __device__ explicit Update(const UpdateArguments &arguments) : Update(arguments, ofGrid(arguments)) {}
  __device__ Update(const UpdateArguments &arguments, Items taken)
      : a(arguments), items(taken), rate(valueOf(arguments.rate) * arguments.rateScale),
        scale(static_cast<T>(arguments.scale * valueOf(arguments.scaleBy))) {}

  /// Whether skip_if lets the update be.
  __device__ bool wanted() const { return !a.skipIf || *a.skipIf == 0; }
  /// Element i of the model becomes f(i, element, gradient).
  template <class F> __device__ void run(F f) const {
    if (!wanted()) return;
    T *model = static_cast<T *>(a.model);
#pragma unroll 1
    for (int64_t i = items.first; i < items.end; i += items.step) {
      const T old = model[i], next = f(i, old, gradient(i, old));
      model[i] = next;
      if (a.copyKind == 1) static_cast<float16 *>(a.copy)[i] = stored<float16>(next);
      if (a.copyKind == 2) static_cast<bfloat16 *>(a.copy)[i] = stored<bfloat16>(next);
    }
  }

  /// Element i of the regularised gradient.
  __device__ T gradient(int64_t i, T model) const {
    T diff;
    if (a.diffKind == 1)
      diff = static_cast<T>(load(static_cast<const float16 *>(a.diff)[i]));
    else if (a.diffKind == 2)
      diff = static_cast<T>(load(static_cast<const bfloat16 *>(a.diff)[i]));
    else
      diff = static_cast<const T *>(a.diff)[i];
    const T sign = static_cast<T>(model > T(0)) - static_cast<T>(model < T(0));
    return diff * scale + static_cast<T>(a.l1) * sign + static_cast<T>(a.l2) * model;
  }
};

} // namespace opc::cuda
