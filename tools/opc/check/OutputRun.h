// What a graph's outputs are for generated inputs, and whether they are what a lock says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFinding.h"
#include "Lock.h"
#include "Registry.h"
#include "TensorCompare.h"
#include "TensorMetrics.h"

#include "opc/Status.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace opc::cli {

/// Runs one step of a plan on inputs from the counter-based generator: floats uniform in [low, high), integers 0 or 1,
/// variables without an initializer like inputs. The same numbers on every machine and for any number of threads.
/// `numerics` has the seed and the range, and gets the outputs. Errors: those of the session.
Status runOutputs(std::string_view plan, const Registry &registry, int threads, NumericFacts *numerics);

/// How far an output may be from what is locked; metrics, where there are any, in place of the tolerance.
struct OutputTolerance {
  Tolerance tolerance;
  std::vector<Metric> metrics = {};
};
using ToleranceOf = std::function<OutputTolerance(const std::string &output, DataType type)>;

/// NUMERIC_MISMATCH and NONFINITE: |now - locked| <= atol + rtol * |locked| for every sample, and what follows from it
/// for the statistics; metrics are of the samples; types that are not floating are compared exactly.
std::vector<GraphFinding> compareOutputs(const NumericFacts &locked, const NumericFacts &now,
                                         const ToleranceOf &tolerance);

} // namespace opc::cli
