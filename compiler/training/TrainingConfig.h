// What a training graph is asked to have beside gradients. Plain data: the command line and OneFlow's TrainConf both
// become this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Attr.h"

#include <map>
#include <string>
#include <vector>

namespace opc {

/// One optimizer over some of the variables.
struct OptimizerGroup {
  /// Globs over variable names; empty: every trainable variable that no other group names.
  std::vector<std::string> variables;
  /// The op that updates a variable: "sgd_update", "adam_update", ...
  std::string updateOp = "sgd_update";
  /// Its attributes, where they are not the default ("beta1", "epsilon", ...).
  std::map<std::string, AttrValue> attrs;
  double learningRate = 0;
  /// Attributes of learning_rate_schedule; empty: the rate is constant.
  std::map<std::string, AttrValue> schedule;
  /// A tensor of the graph that holds the rate, in place of the two above.
  std::string learningRateTensor;
  /// Gradients are scaled down together when their 2-norm exceeds this; 0: never.
  double clipNorm = 0;
  /// Weight decay, as the attribute `decayAttr` of the update op, for variables that the patterns select (globs; an
  /// exclusion wins).
  double weightDecay = 0;
  std::string decayAttr = "weight_decay";
  std::vector<std::string> decayOnly, decayNever;
  /// The first value of adagrad's sum.
  double initialAccumulator = 0;
};

struct LossScale {
  bool dynamic = false;
  double value = 1; // static: the factor; dynamic: the first one
  int64_t incrementPeriod = 2000;
  double multiplier = 2;
};

/// What a variable's own loss is, beside that of the graph: l1 * |w| + l2 / 2 * w^2.
struct Regularizer {
  double l1 = 0, l2 = 0;
};

struct TrainingConfig {
  std::vector<OptimizerGroup> groups;
  /// By the variable's name. Their gradients are added before gradients are clipped.
  std::map<std::string, Regularizer> regularizers;
  LossScale lossScale;
  /// Gradients are summed over so many steps before each update, and their mean is used.
  int64_t accumulate = 1;
};

/// Which forward ops the backward pass computes again instead of keeping their results.
struct RecomputeConfig {
  /// Globs over op names; one that begins with ! takes its ops out again.
  std::vector<std::string> ops;
  /// Or: cut the forward ops into so many segments at the cheapest places and keep only what crosses the cuts. 0: do
  /// not; -1: as many as the square root of their number.
  int64_t segments = 0;
  bool empty() const { return ops.empty() && segments == 0; }
};

} // namespace opc
