// prelu.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"

namespace opc::cuda {
namespace {

template <class T>
__device__ void prelu(const void *x, const void *alpha, void *y, int64_t n, int64_t channels, int64_t inner) {
  for (int64_t i = firstItem(); i < n; i += itemStep()) {
    const auto v = load(static_cast<const T *>(x)[i]);
    const auto a = load(static_cast<const T *>(alpha)[i / inner % channels]);
    static_cast<T *>(y)[i] = stored<T>(v > 0 ? v : v * a);
  }
}

} // namespace

#define OPC_PRELU(name, T)                                                                                             \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      prelu_##name(const void *x, const void *alpha, void *y, int64_t n, int64_t channels, int64_t inner) {            \
    prelu<T>(x, alpha, y, n, channels, inner);                                                                         \
  }
OPC_EACH_FLOAT(OPC_PRELU)

} // namespace opc::cuda
