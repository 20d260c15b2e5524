// Exact products and convolutions of 8-bit integers, in 32 bits that wrap around: the tiles of convolutions.
// SPDX-License-Identifier: Apache-2.0
#include "convolution/ConvTiles.cuh"
#include "quantization/QuantizationArguments.h"

namespace opc::cuda {
namespace {

using ops::ByteOperand;
using ops::IntegerConvArguments;
using ops::IntegerMatmulArguments;

__device__ inline int32_t byteAt(const void *data, int32_t isSigned, int64_t i) {
  return isSigned ? static_cast<const int8_t *>(data)[i] : static_cast<const uint8_t *>(data)[i];
}
/// Number i less zero point `owner`.
__device__ inline uint32_t centered(const ByteOperand &o, int64_t i, int64_t owner) {
  const int32_t zero = o.zero ? byteAt(o.zero, o.isSigned, o.isZeroVector ? owner : 0) : 0;
  return static_cast<uint32_t>(byteAt(o.data, o.isSigned, i) - zero);
}

/// Held to the range of 8 bits, as the CPU does.
__device__ inline float held(float steps, float zero, float low, float high) {
  float v = rintf(steps) + zero;
  v = v > low ? v : low;
  return v < high ? v : high;
}

/// Element `i` of out from the sum of `column`.
__device__ inline void storeSum(const ops::FinishArguments &f, void *out, int64_t i, int64_t column, uint32_t value) {
  const auto sum = static_cast<int32_t>(value);
  if (!f.scale) {
    static_cast<int32_t *>(out)[i] = sum;
    return;
  }
  const float steps = static_cast<float>(f.relu && sum < 0 ? 0 : sum) * f.scale[f.isScaleVector ? column : 0];
  const int32_t zero = f.zero ? byteAt(f.zero, f.kind, f.isZeroVector ? column : 0) : 0;
  if (f.kind == 2)
    static_cast<float *>(out)[i] = steps;
  else if (f.kind == 1)
    static_cast<int8_t *>(out)[i] =
        static_cast<int8_t>(static_cast<int32_t>(held(steps, static_cast<float>(zero), -128, 127)));
  else
    static_cast<uint8_t *>(out)[i] =
        static_cast<uint8_t>(static_cast<int32_t>(held(steps, static_cast<float>(zero), 0, 255)));
}

/// As ForwardProblem; strides say the layouts.
struct IntegerConvProblem {
  using Acc = uint32_t;
  static constexpr bool kStepsA = false, kStepsB = true, kRowsOut = true;
  const IntegerConvArguments &own;
  const ConvArguments &a;
  int64_t group;
  __device__ int64_t rows() const { return a.batch * volume(a.size); }
  __device__ int64_t columns() const { return a.perGroup; }
  __device__ int64_t parts() const { return a.groups; }
  __device__ void part(int64_t z) { group = z; }
  __device__ int64_t firstStep() const { return 0; }
  __device__ int64_t endStep() const { return a.own * volume(a.kernel); }
  __device__ Place row(int64_t m) const { return place<false>(m, a.batch, a.size); }
  __device__ Place column(int64_t n) const { return {n + group * a.perGroup, 0, 0, 0, n < a.perGroup}; }
  __device__ Place step(int64_t k) const { return place<false>(k, a.own, a.kernel); }
  __device__ Acc left(const Place &m, const Place &k) const {
    int64_t offset;
    if (!m.inside || !k.inside || !seen(a, m, k, &offset)) return 0;
    return centered(own.in, m.c * a.xs[0] + (group * a.own + k.c) * a.xs[1] + offset, 0);
  }
  __device__ Acc right(const Place &n, const Place &k) const {
    if (!n.inside || !k.inside) return 0;
    return centered(own.weight, n.c * a.ws[0] + k.c * a.ws[1] + at(k, a.ws), n.c);
  }
  __device__ void store(const Place &m, const Place &n, Acc value) const {
    if (a.bias) value += static_cast<uint32_t>(static_cast<const int32_t *>(a.bias)[n.c]);
    storeSum(own.finish, a.out, m.c * a.ys[0] + n.c * a.ys[1] + at(m, a.ys), n.c, value);
  }
};

/// A part is a product of the batch.
struct IntegerMatmulProblem {
  using Acc = uint32_t;
  static constexpr bool kStepsA = true, kStepsB = false, kRowsOut = false;
  const IntegerMatmulArguments &a;
  int64_t batch, atA, atB;
  __device__ int64_t columns() const { return a.n; }
  __device__ int64_t parts() const { return a.batches; }
  __device__ void part(int64_t z) {
    batch = z;
    atA = atB = 0;
#pragma unroll 1
    for (int d = a.rank; d-- > 0;) {
      atA += z % a.dims[d] * a.stepA[d];
      atB += z % a.dims[d] * a.stepB[d];
      z /= a.dims[d];
    }
  }
  __device__ int64_t firstStep() const { return 0; }
  __device__ int64_t endStep() const { return a.k; }
  __device__ Place row(int64_t m) const { return {m, 0, 0, 0, m < a.m}; }
  __device__ Place column(int64_t n) const { return {n, 0, 0, 0, n < a.n}; }
  __device__ Place step(int64_t k) const { return {k, 0, 0, 0, k < a.k}; }
  __device__ Acc left(const Place &m, const Place &k) const {
    return m.inside && k.inside ? centered(a.a, atA + m.c * a.k + k.c, m.c) : 0;
  }
  __device__ Acc right(const Place &n, const Place &k) const {
    if (!n.inside || !k.inside) return 0;
    return centered(a.b, atB + (a.transB ? n.c * a.k + k.c : k.c * a.n + n.c), n.c);
  }
  __device__ void store(const Place &m, const Place &n, Acc value) const {
    if (a.bias) value += static_cast<uint32_t>(a.bias[n.c]);
    storeSum(a.finish, a.out, (batch * a.m + m.c) * a.n + n.c, n.c, value);
  }
};

} // namespace

extern "C" __global__ void __launch_bounds__(256, 1)
    integer_conv_tiles(const __grid_constant__ IntegerConvArguments a) {
  tiles(IntegerConvProblem{a, a.conv, 0});
}
extern "C" __global__ void __launch_bounds__(256, 1)
    integer_conv_elements(const __grid_constant__ IntegerConvArguments a) {
  elements(IntegerConvProblem{a, a.conv, 0});
}
extern "C" __global__ void __launch_bounds__(256, 1)
    integer_matmul_tiles(const __grid_constant__ IntegerMatmulArguments a) {
  tiles(IntegerMatmulProblem{a, 0, 0, 0});
}

} // namespace opc::cuda
