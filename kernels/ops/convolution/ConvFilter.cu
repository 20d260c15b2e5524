// The gradients of convolutions by their weight.
// SPDX-License-Identifier: Apache-2.0
#include "convolution/ConvTiles.cuh"

namespace opc::cuda {
namespace {

/// The slices of the gradient by the weight, added up in order.
template <class T> __device__ void addSlices(const void *from, void *to, int64_t n, int64_t slices) {
  const Compute<T> *parts = static_cast<const Compute<T> *>(from);
#pragma unroll 1
  for (int64_t i = firstItem(); i < n; i += itemStep()) {
    Compute<T> sum = parts[i];
    for (int64_t s = 1; s < slices; ++s) sum += parts[s * n + i];
    static_cast<T *>(to)[i] = stored<T>(sum);
  }
}

} // namespace

#define OPC_CONV_KERNEL(kernel, body)                                                                                  \
  extern "C" __global__ void __launch_bounds__(256, 1) kernel(const __grid_constant__ ConvArguments a) { body; }
#define OPC_CONV(name, T)                                                                                              \
  OPC_CONV_KERNEL(conv_filter_tiles_first_##name, (tiles(FilterProblem<T, false>{a, 0, 0})))                           \
  OPC_CONV_KERNEL(conv_filter_tiles_last_##name, (tiles(FilterProblem<T, true>{a, 0, 0})))                             \
  OPC_CONV_KERNEL(conv_filter_sums_first_##name, (sums(FilterProblem<T, false>{a, 0, 0})))                             \
  OPC_CONV_KERNEL(conv_filter_sums_last_##name, (sums(FilterProblem<T, true>{a, 0, 0})))                               \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      conv_add_slices_##name(const void *from, void *to, int64_t n, int64_t slices) {                                  \
    addSlices<T>(from, to, n, slices);                                                                                 \
  }
OPC_EACH_FLOAT(OPC_CONV)

} // namespace opc::cuda
