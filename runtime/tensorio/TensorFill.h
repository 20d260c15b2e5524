// Generated contents for tensors. Each element depends on (seed, stream, index) alone: any order, any thread count and
// any machine give the same bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "HostTensor.h"

#include <string_view>

namespace opc {

/// 64-bit FNV-1a of a name: the generator's stream for the tensor of that name, the same on every machine.
uint64_t stableHash(std::string_view text);

/// A key for the generator: equal keys give equal numbers.
struct FillKey {
  uint64_t seed = 0;
  uint64_t stream = 0;
};

/// Every element `value`, converted to the element type (integers: truncated towards zero and saturated; bool: != 0).
void fillConstant(HostTensor *t, double value);
/// 0, 1, 2, ... in row-major order, in the element type's arithmetic (integers wrap; bool: odd).
void fillIota(HostTensor *t);
/// Floating types: uniform in [lo, hi) with 24 (f64: 53) random bits. Integers: uniform in [lo, hi] with both ends.
/// bool: a fair coin.
void fillUniform(HostTensor *t, double lo, double hi, FillKey key);
/// Normal distribution by Box-Muller, rounded to the element type.
void fillNormal(HostTensor *t, double mean, double stddev, FillKey key);
/// Normal distribution with everything at 2 stddev or more from the mean drawn again.
void fillTruncatedNormal(HostTensor *t, double mean, double stddev, FillKey key);

} // namespace opc
