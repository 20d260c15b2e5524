// Conversions of whole arrays between f16 or bf16 and f32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"

#include <cstdint>

namespace opc::cpu {

/// n elements; rounding to nearest, ties to even. The arrays may not overlap.
void widen(const float16 *from, float *to, int64_t n);
void widen(const bfloat16 *from, float *to, int64_t n);
void narrow(const float *from, float16 *to, int64_t n);
void narrow(const float *from, bfloat16 *to, int64_t n);

} // namespace opc::cpu
