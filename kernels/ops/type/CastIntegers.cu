// Conversions of integers.
// SPDX-License-Identifier: Apache-2.0
#include "type/Cast.cuh"

namespace opc::cuda {
OPC_CASTS(i8, int8_t)
OPC_CASTS(u8, uint8_t)
OPC_CASTS(i16, int16_t)
OPC_CASTS(u16, uint16_t)
OPC_CASTS(i32, int32_t)
OPC_CASTS(u32, uint32_t)
OPC_CASTS(i64, int64_t)
OPC_CASTS(u64, uint64_t)
} // namespace opc::cuda
