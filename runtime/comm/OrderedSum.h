// Addends put together in a fixed order, so that the same addends always give the same bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Boxing.h"

namespace opc::runtime {

/// target[i] = ((sources[0][i] + sources[1][i]) + sources[2][i]) + ..., or the maxima. f16 and bf16 are summed in f32
/// and rounded once, at the end; other types in themselves, integers modulo 2^n. The result of an element depends on
/// nothing but its addends, so pieces of a tensor give the same bits as the whole. A maximum is NaN when an addend is.
/// `target` may be one of the sources; otherwise the memory does not overlap. False for a type without sums (bool).
bool combineInOrder(void *target, const void *const *sources, size_t count, int64_t elements, DataType type,
                    BoxingReduction reduction);

/// Fills with the value that adds nothing: zeros for a sum, the least value of the type for a maximum.
void fillNeutral(void *target, int64_t elements, DataType type, BoxingReduction reduction);

/// Whether the order of the addends cannot be seen in the result: sums of integers, of two addends, maxima of integers.
bool isOrderFree(DataType type, BoxingReduction reduction, size_t addends);

} // namespace opc::runtime
