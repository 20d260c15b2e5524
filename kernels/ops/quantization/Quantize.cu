// Between real numbers, 32-bit sums and quantised integers: a thread for each element.
// SPDX-License-Identifier: Apache-2.0
#include "BlockJoin.cuh"
#include "DeviceTypes.cuh"
#include "quantization/QuantizationArguments.h"

namespace opc::cuda {
namespace {

using ops::DynamicQuantizationArguments;
using ops::QuantizationArguments;
using ops::QuantizedTensor;

__device__ inline int64_t readQuantized(const QuantizedTensor &t, int64_t i) {
  if (!t.data) return 0;
  switch (t.kind) {
  case 0: return static_cast<const uint8_t *>(t.data)[i];
  case 1: return static_cast<const int8_t *>(t.data)[i];
  case 2: return static_cast<const uint16_t *>(t.data)[i];
  case 3: return static_cast<const int16_t *>(t.data)[i];
  default: return static_cast<const int32_t *>(t.data)[i];
  }
}
/// The nearest integer, ties to even, plus the zero point, within the range; NaN gives the least one.
template <class Q> __device__ void writeHeld(const QuantizedTensor &t, int64_t i, double steps, int64_t zero) {
  constexpr double low = static_cast<double>(std::numeric_limits<Q>::lowest()),
                   high = static_cast<double>(std::numeric_limits<Q>::max());
  double v = rint(steps) + static_cast<double>(zero);
  v = v > low ? v : low;
  v = v < high ? v : high;
  static_cast<Q *>(t.data)[i] = static_cast<Q>(static_cast<int64_t>(v));
}
__device__ inline void writeQuantized(const QuantizedTensor &t, int64_t i, double steps, int64_t zero) {
  switch (t.kind) {
  case 0: return writeHeld<uint8_t>(t, i, steps, zero);
  case 1: return writeHeld<int8_t>(t, i, steps, zero);
  case 2: return writeHeld<uint16_t>(t, i, steps, zero);
  case 3: return writeHeld<int16_t>(t, i, steps, zero);
  default: return writeHeld<int32_t>(t, i, steps, zero);
  }
}

template <class T> __device__ void quantize(const QuantizationArguments &a) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
    const int64_t s = i / a.length % a.scales;
    const Compute<T> steps = load(static_cast<const T *>(a.from)[i]) / load(static_cast<const T *>(a.scale)[s]);
    writeQuantized(a.quantized, i, static_cast<double>(steps), readQuantized(a.zero, s));
  }
}
template <class T> __device__ void dequantize(const QuantizationArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
    const int64_t s = i / a.length % a.scales;
    const int64_t steps = readQuantized(a.quantized, i) - readQuantized(a.zero, s);
    static_cast<T *>(a.to)[i] =
        stored<T>(static_cast<C>(static_cast<C>(steps) * load(static_cast<const T *>(a.scale)[s])));
  }
}

/// The least and the largest number of the block's, or 0 where that is beyond them; in its first thread.
__device__ inline void blockRange(float *low, float *high) {
  __shared__ float lows[kJoinThreads], highs[kJoinThreads];
  lows[threadIdx.x] = *low;
  highs[threadIdx.x] = *high;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  *low = joinParts(lows, [](float x, float y) { return y < x ? y : x; });
  *high = joinParts(highs, [](float x, float y) { return y > x ? y : x; });
}

} // namespace

#define OPC_QUANTIZE(name, T)                                                                                          \
  OPC_KERNEL(quantize_linear_##name, QuantizationArguments, quantize<T>)                                               \
  OPC_KERNEL(dequantize_linear_##name, QuantizationArguments, dequantize<T>)
OPC_EACH_FLOAT(OPC_QUANTIZE)

extern "C" __global__ void __launch_bounds__(256, 1) requantize_i32(const __grid_constant__ QuantizationArguments a) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
    const int64_t s = i / a.length % a.scales;
    const float steps =
        static_cast<float>(static_cast<const int32_t *>(a.from)[i]) * static_cast<const float *>(a.scale)[s];
    writeQuantized(a.quantized, i, static_cast<double>(steps), readQuantized(a.zero, s));
  }
}

extern "C" __global__ void __launch_bounds__(256, 1)
    dynamic_quantize_ranges(const __grid_constant__ DynamicQuantizationArguments a) {
  float low = 0, high = 0;
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
    const float v = a.in[i];
    low = v < low ? v : low;
    high = v > high ? v : high;
  }
  blockRange(&low, &high);
  if (threadIdx.x == 0) {
    a.ranges[2 * blockIdx.x] = low;
    a.ranges[2 * blockIdx.x + 1] = high;
  }
}
extern "C" __global__ void __launch_bounds__(256, 1)
    dynamic_quantize_steps(const __grid_constant__ DynamicQuantizationArguments a) {
  float low = 0, high = 0;
  if (threadIdx.x < a.blocks) {
    low = a.ranges[2 * threadIdx.x];
    high = a.ranges[2 * threadIdx.x + 1];
  }
  blockRange(&low, &high);
  __shared__ float steps[2];
  if (threadIdx.x == 0) {
    // Nothing but zeros: any scale would do, 1 divides.
    const float size = high > low ? (high - low) / 255.0f : 1.0f, point = 0.0f - low / size;
    steps[0] = size;
    steps[1] = rintf(point < 0.0f ? 0.0f : point > 255.0f ? 255.0f : point);
  }
  __syncthreads();
  const float scale = steps[0], zero = steps[1];
  if (firstItem() == 0) {
    *a.scale = scale;
    *a.zero = static_cast<uint8_t>(zero);
  }
#pragma unroll 1
  for (int64_t i = firstItem(); i < a.n; i += itemStep()) {
    float v = rintf(a.in[i] / scale) + zero;
    v = v > 0.0f ? v : 0.0f;
    v = v < 255.0f ? v : 255.0f;
    a.out[i] = static_cast<uint8_t>(static_cast<int32_t>(v));
  }
}

} // namespace opc::cuda
