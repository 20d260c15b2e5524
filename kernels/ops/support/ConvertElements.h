// Conversion of whole arrays between element types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"

#include <cstdint>

namespace opc::ops {

/// Converts `n` elements, each as convertElement of opc/Convert.h does. The arrays do not overlap, or are equal with
/// equal element sizes.
using ConvertFn = void (*)(const void *from, void *to, int64_t n);
/// nullptr when either type is not a tensor type.
ConvertFn converter(DataType from, DataType to, bool saturate = true);

} // namespace opc::ops
