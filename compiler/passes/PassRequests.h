// What passes are asked to do, as plain data: the pipeline's options hold it, passes take it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "TrainingConfig.h"
#include "opc/DataType.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opc {

/// What remains of a graph (`--until`, `--feed`, `--only`, `--output`). Names of tensors and ops as the graph's facts
/// give them.
struct GraphCut {
  std::vector<std::string> feeds;                         // tensors that become inputs of the same name
  std::vector<std::pair<std::string, std::string>> until; // (tensor, output's name): the only outputs
  std::vector<std::string> only;                          // ops that are kept, without the others
  std::vector<std::string> outputs; // output ops that are kept, with the ops that write variables; none: all
  bool empty() const { return !hasParts() && outputs.empty(); }
  /// Whether it makes inputs or outputs that the graph has not.
  bool hasParts() const { return !feeds.empty() || !until.empty() || !only.empty(); }
};

/// Ops that compute in another element type (`--cast-ops`).
struct CastRequest {
  std::string glob;                 // of names of ops, or of their types
  DataType type = kInvalidDataType; // f16, bf16, f32 or f64
};

/// What of `--cast-ops` a pass does: where a graph is cut, names are looked up before and ops cast behind, so that what
/// is cut has the graph's types.
enum class CastStep { kAll, kNames, kOps };

/// What is added to a graph by differentiation.
struct GradientRequest {
  /// Tensors, output ops, or ops with one output; their sum is differentiated.
  std::vector<std::string> losses;
  /// The losses stand in the graph (its train_conf), and nobody has asked for them.
  bool isOfGraph = false;
  /// Globs over variables and inputs, or names of tensors; none: the trainable variables.
  std::vector<std::string> wrt;
  /// 2 adds the gradient of the sum of each gradient with respect to the same tensor ("NAME.grad.grad"), and so on.
  int order = 1;
  /// Keep only the backward ops; what they read of the forward ops becomes inputs.
  bool backwardOnly = false;
  /// The gradient of each loss is an input "NAME.dy" of the loss's shape, in place of ones.
  bool dyInputs = false;
  /// Each loss becomes an output, called "loss:0", "loss:1", ... With `lossesOnly` nothing else is kept, and no
  /// gradient is made.
  bool lossOutputs = false, lossesOnly = false;
  /// Set: the graph becomes a training step. Gradients of variables are then not outputs; those of inputs are.
  std::optional<TrainingConfig> training;
  RecomputeConfig recompute;
};

} // namespace opc
