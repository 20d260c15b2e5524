// opc grad --check: gradients against central differences in f64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Failure.h"
#include "JsonOutput.h"
#include "Pipeline.h"
#include "ValueGiver.h"

#include <string>
#include <vector>

namespace opc::cli {

struct GradientCheckOptions {
  GradientRequest request;
  std::map<std::string, std::vector<int64_t>> shapes;
  ModelRequest model;
  /// The step is eps * max(1, |x|).
  double eps = 1e-5;
  double rtol = 1e-5;
  /// Elements checked in each tensor, spread over it; 0: all.
  int64_t samples = 24;
  int threads = 0;
};

struct TensorCheck {
  std::string name;
  user_op::TensorDesc desc;
  int64_t elements = 0, checked = 0, kinks = 0, mismatches = 0;
  double maxError = 0; // relative, over the checked elements
  int64_t worst = -1;  // the element with it
  double analytic = 0, numeric = 0;
  std::string skipped; // why nothing was checked
  bool passed() const { return mismatches == 0; }
  void setWorst(int64_t element, double error, double gradient, double quotient) {
    worst = element, maxError = error, analytic = gradient, numeric = quotient;
  }
};

/// The verdict on one op's rule, by itself, on the values that it had in the graph.
struct OpVerdict {
  std::string op, type;
  SourceRange range;
  bool checked = false, passed = true;
  std::string detail; // the first wrong input with both values, or why the op was not checked
};

/// In a larger graph nothing is found out about single ops: one compilation for each would take minutes.
constexpr size_t kMostSearchedOps = 2000;

struct GradientCheck {
  std::vector<TensorCheck> tensors;
  std::vector<OpVerdict> ops; // filled when a tensor failed: ops on the path, in the graph's order
  size_t unsearchedOps = 0;   // those of the graph, where they are more than kMostSearchedOps and a tensor failed
  /// Nothing is wrong.
  bool passed() const;
};

/// The graph to check, and the values as the command line gives them.
struct CheckInputs {
  std::string name;
  SharedBytes bytes; // of the graph
  ValueFlags values;
  std::vector<std::string> command;
};

/// The losses, and what of --wrt is a name and no glob: a check looks at nothing that these do not need.
std::vector<std::string> namesToCheck(const GradientRequest &request);

/// Compiles the part of the graph that the losses need with every floating-point tensor as f64, computes the gradients,
/// and compares them with (L(x + h) - L(x - h)) / 2h. Where the one-sided differences disagree at every step size there
/// is a kink: any value between them is right. OPC0506 when there is nothing to compare.
Outcome<GradientCheck> checkGradients(const Registry &registry, const CheckInputs &inputs,
                                      const GradientCheckOptions &options);

/// The result as a table for people, and as the document of --json.
std::string gradientCheckText(const GradientCheck &check);
Json gradientCheckJson(const GradientCheck &check, const std::string &graph);

} // namespace opc::cli
