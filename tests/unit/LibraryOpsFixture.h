// Runs one built-in op on the CPU for the tests of the library operators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include <functional>
#include <string>
#include <vector>

namespace opc::test {

/// A tensor of a test: values as doubles, and the bytes they have in the tensor's type.
struct TestTensor {
  DataType type = kFloat;
  Shape shape;
  std::vector<double> values;
  std::vector<char> bytes;
};

TestTensor tensorOf(DataType type, Shape shape, std::vector<double> values);
/// Pseudo-random values in [lo, hi), rounded to the type.
TestTensor randomTensor(DataType type, Shape shape, unsigned seed, double lo = -1, double hi = 1);

struct OpCall {
  std::string op;
  std::vector<std::pair<std::string, TestTensor>> inputs; // an argument each, in any order
  std::map<std::string, AttrValue> attrs;
  std::vector<std::string> optionalOutputs;
  std::vector<std::string> constants; // inputs that are bound as constants
};

/// The outputs by argument name, or the first error.
struct OpOutcome {
  Status status;
  std::map<std::string, TestTensor> outputs;
};
OpOutcome runOp(const OpCall &call, int threads = 1);

/// Runs with 1, 2 and 3 threads, with inputs constant and not, twice each; requires equal bytes everywhere. Gives the
/// outputs.
std::map<std::string, TestTensor> runEverywhere(OpCall call);
/// Requires |found - expected| <= atol + rtol * |expected|, elementwise; NaN equals NaN.
void requireClose(const TestTensor &found, const std::vector<double> &expected, double rtol, double atol);
/// Runs and requires an error; gives its text.
std::string errorOf(const OpCall &call);
/// Tolerances that fit a type: products of f32 and their sums, or the rounding of half types.
double toleranceOf(DataType type);

} // namespace opc::test
