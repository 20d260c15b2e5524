// Conversions of bool and 8-bit floats.
// SPDX-License-Identifier: Apache-2.0
#include "type/Cast.cuh"

namespace opc::cuda {
OPC_CASTS(bool, bool)
OPC_CASTS(f8e4m3fn, float8_e4m3fn)
OPC_CASTS(f8e5m2, float8_e5m2)
} // namespace opc::cuda
