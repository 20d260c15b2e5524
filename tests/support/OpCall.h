// Runs one op on the CPU: a test says the op, its inputs and attributes, and gets its outputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "TestRegistry.h"
#include "TestTensor.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace opc::test {

struct OpCall {
  std::string op;
  std::vector<std::pair<std::string, TestTensor>> inputs = {}; // an argument that comes n times has n tensors
  std::map<std::string, AttrValue> attrs = {};
  std::map<std::string, int32_t> outputs = {}; // optional and variadic ones: argument and count
  std::vector<std::string> constants = {};     // inputs that are bound as constants
};

/// Outputs in the op's order, each under its argument.
struct OpOutputs {
  std::vector<std::pair<std::string, TestTensor>> tensors;
  const TestTensor &operator[](size_t i) const { return tensors.at(i).second; }
  /// The first tensor of an argument, which must be there.
  const TestTensor &at(const std::string &arg) const;
  size_t size() const { return tensors.size(); }
};

struct CallOptions {
  int threads = 1, runs = 1;
  std::vector<std::pair<int, int>> inplace = {}; // (output, input) at one address
};

/// The first error on the way, or the outputs of the last run.
Result<OpOutputs> tryOp(const OpCall &call, const CallOptions &options = {});
/// Runs on 1, 2 and 5 threads and requires success and equal bytes.
OpOutputs run(const OpCall &call);
/// The first output of run().
template <class T> std::vector<T> runAs(const OpCall &call) { return run(call)[0].as<T>(); }
/// Runs with 1, 2 and 3 threads, twice each, with inputs constant and not; requires equal bytes for any number of
/// threads, and equal values (up to rounding) for constants.
OpOutputs runEverywhere(OpCall call);
/// Runs and requires an error; its text.
std::string errorOf(const OpCall &call);

} // namespace opc::test
