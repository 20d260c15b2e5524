// What a graph gives now beside what its lock says that it gave.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFinding.h"
#include "Lock.h"
#include "OutputFiles.h"
#include "TensorCompare.h"
#include "TensorMetrics.h"

#include <functional>
#include <string>
#include <vector>

namespace opc::cli {

/// How far an output may be from what is locked; metrics, where there are any, in place of the tolerance.
struct OutputTolerance {
  Tolerance tolerance;
  std::vector<Metric> metrics = {};
  bool nanEqual = false;
};
/// `isOtherDevice`: the locked values were computed on another kind of device.
using ToleranceOf = std::function<OutputTolerance(const std::string &output, DataType type, bool isOtherDevice)>;

/// Whole outputs, by name.
struct OutputPair {
  const HostTensor *was = nullptr, *is = nullptr;
};
using WholeOutputs = std::function<OutputPair(const std::string &output)>;

/// NUMERIC_MISMATCH and NONFINITE: |now - locked| <= atol + rtol * |locked| for every value that `whole` has, else for
/// every sample, and what follows from it for the statistics; metrics are of the same values; types that are not
/// floating are compared exactly. A NaN equals nothing, unless the tolerance says so. Outputs come first, then the
/// tensors inside.
std::vector<GraphFinding> compareOutputs(const NumericFacts &locked, const NumericFacts &now,
                                         const ToleranceOf &tolerance, bool isOtherDevice, const WholeOutputs &whole);

} // namespace opc::cli
