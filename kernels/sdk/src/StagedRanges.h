// Ranges of floating elements in the type that a kernel computes in, and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"
#include "opc/HalfConversion.h"

#include <cstdint>

namespace opc::user_op {

inline void widenRange(const void *from, DataType type, float *to, int64_t b, int64_t e) {
  if (type == kFloat16)
    cpu::widen(static_cast<const float16 *>(from) + b, to + b, e - b);
  else
    cpu::widen(static_cast<const bfloat16 *>(from) + b, to + b, e - b);
}
inline void widenRange(const void *from, DataType type, double *to, int64_t b, int64_t e) {
  for (int64_t i = b; i < e; ++i) {
    if (type == kFloat)
      to[i] = static_cast<const float *>(from)[i];
    else if (type == kFloat16)
      to[i] = static_cast<float>(static_cast<const float16 *>(from)[i]);
    else
      to[i] = static_cast<float>(static_cast<const bfloat16 *>(from)[i]);
  }
}
inline void narrowRange(const float *from, void *to, DataType type, int64_t b, int64_t e) {
  if (type == kFloat16)
    cpu::narrow(from + b, static_cast<float16 *>(to) + b, e - b);
  else
    cpu::narrow(from + b, static_cast<bfloat16 *>(to) + b, e - b);
}
inline void narrowRange(const double *from, void *to, DataType type, int64_t b, int64_t e) {
  for (int64_t i = b; i < e; ++i) {
    if (type == kFloat)
      static_cast<float *>(to)[i] = static_cast<float>(from[i]);
    else if (type == kFloat16)
      static_cast<float16 *>(to)[i] = float16(static_cast<float>(from[i]));
    else
      static_cast<bfloat16 *>(to)[i] = bfloat16(static_cast<float>(from[i]));
  }
}

} // namespace opc::user_op
