// Convolutions.
// SPDX-License-Identifier: Apache-2.0
#include "convolution/ConvTiles.cuh"

namespace opc::cuda {

#define OPC_CONV_KERNEL(kernel, body)                                                                                  \
  extern "C" __global__ void __launch_bounds__(256, 1) kernel(const __grid_constant__ ConvArguments a) { body; }
#define OPC_CONV(name, T)                                                                                              \
  OPC_CONV_KERNEL(conv_forward_tiles_first_##name, (tiles(ForwardProblem<T, false>{a, 0})))                            \
  OPC_CONV_KERNEL(conv_forward_tiles_last_##name, (tiles(ForwardProblem<T, true>{a, 0})))                              \
  OPC_CONV_KERNEL(conv_forward_elements_first_##name, (elements(ForwardProblem<T, false>{a, 0})))                      \
  OPC_CONV_KERNEL(conv_forward_elements_last_##name, (elements(ForwardProblem<T, true>{a, 0})))
OPC_EACH_FLOAT(OPC_CONV)

} // namespace opc::cuda
