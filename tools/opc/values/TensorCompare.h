// Comparison of a result with what was expected: |a - e| <= atol + rtol * |e|, element by element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Session.h"

#include <optional>
#include <string>

namespace opc::cli {

struct Tolerance {
  double rtol = 0, atol = 0;
};

/// Where nothing else is asked for: the table of element types has it (opc/DataType.h).
Tolerance defaultTolerance(DataType type);
/// The same for what another device has computed than that of the expected values: another order of sums, other
/// functions.
Tolerance otherDeviceTolerance(DataType type);

/// What rounding in another order may do: relative to the tensor's largest element, since sums cancel.
Tolerance reorderedTolerance(const HostTensor &expected);

struct Comparison {
  int64_t count = 0, mismatches = 0;
  /// The element that exceeds its tolerance most; -1 when none does.
  int64_t worst = -1;
  double maxAbs = 0, maxRel = 0; // over all finite elements; infinite where 0 was expected and what came is over atol
  /// The smallest rtol that would pass with the given atol, and the other way round; nothing when none would.
  std::optional<double> passingRtol, passingAtol;
  bool passed() const { return mismatches == 0; }
};

/// Both tensors have the same dtype and shape. A NaN equals a NaN only with `nanEqual`; an infinity equals itself.
Comparison compareTensors(const HostTensor &actual, const HostTensor &expected, Tolerance tolerance, bool nanEqual);

/// "[2, 0, 7]": the position of a flat index.
std::string indexText(const Shape &shape, int64_t flat);

/// ", cosine 0.998"; empty where there is none: of NaN, and of zeros beside other values.
std::string cosineText(const HostTensor &actual, const HostTensor &expected, bool nanEqual, int digits);

/// What a mismatch prints: count and share, the worst element with both values, the largest differences, the 99th
/// percentile, the mean and the cosine, and what tolerance would pass.
std::string mismatchText(const std::string &name, const HostTensor &actual, const HostTensor &expected,
                         const Comparison &comparison, Tolerance tolerance, bool nanEqual = false);

} // namespace opc::cli
