// fused_conv2d: what follows the convolution is done where its results are stored.
// SPDX-License-Identifier: Apache-2.0
#include "convolution/ConvTiles.cuh"

namespace opc::cuda {
namespace {

using ops::FusedConvArguments;

template <bool kLastLayout> struct FusedProblem : ForwardProblem<float, kLastLayout> {
  const FusedConvArguments &fused;
  __device__ explicit FusedProblem(const FusedConvArguments &arguments)
      : ForwardProblem<float, kLastLayout>{arguments.conv, 0}, fused(arguments) {}
  __device__ void store(const Place &m, const Place &n, float value) const {
    const ConvArguments &a = this->a;
    const int64_t to = m.c * a.ys[0] + n.c * a.ys[1] + at(m, a.ys);
    if (a.bias) value += static_cast<const float *>(a.bias)[n.c];
    if (fused.gamma) {
      const float scale = static_cast<float>(fused.gamma[n.c] / sqrt(fused.variance[n.c] + fused.epsilon));
      value = (value - fused.mean[n.c]) * scale + fused.beta[n.c];
    }
    if (a.add) value += static_cast<const float *>(a.add)[to];
    const bool isNumber = value == value; // NaN stays
    if (fused.activation == 1 && isNumber) value = value > 0.0f ? value : 0.0f;
    if (fused.activation == 2 && isNumber) {
      value = value > fused.low ? value : fused.low;
      value = value < fused.high ? value : fused.high;
    }
    static_cast<float *>(a.out)[to] = value;
  }
};

} // namespace

#define OPC_FUSED_CONV(layout, last)                                                                                   \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      fused_conv_tiles_##layout(const __grid_constant__ FusedConvArguments a) {                                        \
    tiles(FusedProblem<last>(a));                                                                                      \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(256, 1)                                                                 \
      fused_conv_elements_##layout(const __grid_constant__ FusedConvArguments a) {                                     \
    elements(FusedProblem<last>(a));                                                                                   \
  }
OPC_FUSED_CONV(first, false)
OPC_FUSED_CONV(last, true)

} // namespace opc::cuda
