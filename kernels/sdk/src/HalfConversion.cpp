// Conversions of whole arrays between f16 or bf16 and f32, eight at a time.
// SPDX-License-Identifier: Apache-2.0
#include "opc/HalfConversion.h"

#include <immintrin.h>

namespace opc::cpu {

void widen(const float16 *from, float *to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i))));
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

void widen(const bfloat16 *from, float *to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

void narrow(const float *from, float16 *to, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  for (; i < n; ++i) to[i] = float16(from[i]);
}

void narrow(const float *from, bfloat16 *to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = bfloat16(from[i]);
}

} // namespace opc::cpu
