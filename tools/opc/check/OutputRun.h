// What a graph's outputs are for the inputs of its lock: generated ones, or those of a file beside it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Lock.h"
#include "OutputFiles.h"
#include "Registry.h"

#include "opc/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace opc::cli {

struct OutputRequest {
  int threads = 1;
  std::string inputs = {};               // an .npz with inputs and variables; empty: all are generated
  std::vector<std::string> tensors = {}; // globs of tensors inside the graph whose values are wanted, too
  bool keepsValues = false;              // whole outputs and not their statistics alone
};

/// Runs one step of a plan. What the file does not have is drawn by the counter-based generator: floats uniform in
/// [low, high), integers 0 or 1, variables without an initializer like inputs. The same numbers on every machine and
/// for any number of threads. `numerics` has the seed and the range, and gets the outputs and then the tensors by name;
/// `values`, when asked for, the whole of them. Errors: those of the session and of reading the file; OPC0005 for a
/// name in it that the graph does not have.
Status runOutputs(std::string_view plan, const Registry &registry, const OutputRequest &request, NumericFacts *numerics,
                  std::vector<NamedOutput> *values);

/// The place of a sample among `elements`.
int64_t indexOfSample(int64_t elements, int64_t sample);

} // namespace opc::cli
