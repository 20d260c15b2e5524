// Tests by execution that ops are pure: equal inputs give equal bits, whenever and in whatever order they run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <functional>
#include <string>
#include <vector>

namespace opc {

/// An op that is held to be pure and is not.
struct PurityFinding {
  std::string op, sample, type; // "my_op", "case big", "f32"
  std::string when;             // "run again in another instance"
  std::string detail;           // the first element that differs, with both values; or the error
};

struct PurityReport {
  std::vector<PurityFinding> findings; // one for an op
  size_t ops = 0, samples = 0;         // that were tried
};

/// Hears of each case, and the type that it is tried in, before it runs.
using BeginningCase = std::function<void(const std::string &op, const std::string &sample, const std::string &type)>;

/// What every case of the ops that are held to be pure gives, in every element type in which it runs here: for another
/// process to compare with. The cases run backwards, from the last one; for each, from the first one, come the number
/// of bytes (8 bytes, little-endian; 0: it does not run) and the bytes of its outputs and of the inputs that it writes.
/// `begins` is that of PurityOptions.
std::string resultsOfCases(const Registry &registry, const std::vector<const user_op::OpDef *> &ops,
                           const BeginningCase &begins);

struct PurityOptions {
  /// resultsOfCases() of another process for the same ops; empty: not tried.
  std::function<Result<std::string>()> freshProcess;
  /// Between the first run of a case and the last one, so that a clock of seconds shows.
  double seconds = 1.1;
  BeginningCase begins;
};

/// Runs each case in two instances, twice in one, over memory that held something else, with inputs at another address,
/// in two threads at once, later and in the opposite order, and in a fresh process.
PurityReport checkPurity(const Registry &registry, const std::vector<const user_op::OpDef *> &ops,
                         const PurityOptions &options);

} // namespace opc
