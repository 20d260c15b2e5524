// Transposed convolutions, which are the gradients of convolutions by their input.
// SPDX-License-Identifier: Apache-2.0
#include "convolution/ConvTiles.cuh"

namespace opc::cuda {

#define OPC_CONV_KERNEL(kernel, body)                                                                                  \
  extern "C" __global__ void __launch_bounds__(256, 1) kernel(const __grid_constant__ ConvArguments a) { body; }
#define OPC_CONV(name, T)                                                                                              \
  OPC_CONV_KERNEL(conv_data_tiles_first_##name, (tiles(DataProblem<T, false>{a, 0})))                                  \
  OPC_CONV_KERNEL(conv_data_tiles_last_##name, (tiles(DataProblem<T, true>{a, 0})))                                    \
  OPC_CONV_KERNEL(conv_data_elements_first_##name, (elements(DataProblem<T, false>{a, 0})))                            \
  OPC_CONV_KERNEL(conv_data_elements_last_##name, (elements(DataProblem<T, true>{a, 0})))
OPC_EACH_FLOAT(OPC_CONV)

} // namespace opc::cuda
