// Conversions of floats.
// SPDX-License-Identifier: Apache-2.0
#include "type/Cast.cuh"

namespace opc::cuda {
OPC_CASTS(f32, float)
OPC_CASTS(f64, double)
OPC_CASTS(f16, float16)
OPC_CASTS(bf16, bfloat16)
} // namespace opc::cuda
