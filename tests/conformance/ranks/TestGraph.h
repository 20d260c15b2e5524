// Graphs to run on one rank and on many, with the tensors to feed them and what is allowed to differ.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "HostTensor.h"
#include "Pipeline.h"
#include "Registry.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace opc::ranks {

/// The largest |a - b| at an element: atol + rtol * |b|.
struct Tolerance {
  double rtol = 0, atol = 0;
};
/// docs/testing.md, "Tolerances": by the element type of a tensor.
Tolerance toleranceOf(DataType type);

struct TestGraph {
  std::string name, text;
  std::map<std::string, HostTensor> inputs, variables;
  /// By name of the output or variable: wider than toleranceOf.
  std::map<std::string, Tolerance> tolerances;
  /// Times toleranceOf: rounding errors grow from op to op.
  double factor = 1;
  /// Nothing keeps the numbers small: a sum may be infinite in one order and NaN in another.
  bool sumsMayOverflow = false;
  int64_t steps = 1;
  std::optional<GradientRequest> gradient;
};

/// Every case of an op in the given element types as ops of one graph, independent of each other: "i3" and its outputs
/// "i3.out_0". Types that the op has no kernel for are left out; no graph when nothing is left. With `alone`, a graph
/// for each.
std::vector<TestGraph> caseGraphs(const Registry &registry, const user_op::OpDef &op,
                                  const std::vector<DataType> &types, bool alone);
/// The ops that caseGraphs is for: those of the registry and the derived gradients of the elementwise ones.
std::vector<const user_op::OpDef *> opsWithCases(const Registry &registry);

/// NAME.pbtxt of a folder, each with the tensors of NAME.npz (inputs and variables by name), sorted by name. A first
/// line
/// "# rtol 1e-4 atol 1e-5 steps 3" says more.
Result<std::vector<TestGraph>> folderGraphs(const std::string &folder);

} // namespace opc::ranks
