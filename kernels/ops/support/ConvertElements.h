// Conversion of whole arrays between element types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"

#include <cstdint>

namespace opc::ops {

/// Converts `n` elements. Rules: to a narrower float rounds to nearest even; float to integer truncates toward zero,
/// saturates at the integer's range, and makes NaN 0; integer to narrower integer keeps the low bits; to bool is
/// `x != 0` (NaN is true); bool gives 0 or 1. The arrays do not overlap, or are equal with equal element sizes.
using ConvertFn = void (*)(const void *from, void *to, int64_t n);
/// nullptr when either type is not a tensor type.
ConvertFn converter(DataType from, DataType to);

} // namespace opc::ops
