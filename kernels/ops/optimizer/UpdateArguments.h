// What the device code of model updates is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "IndexFault.h"

#include <cstdint>

namespace opc::ops {

/// A number: the element of a tensor, or `value` where there is no tensor.
struct DeviceScalar {
  const void *data;
  int32_t kind, unused; // of data: 0: f32, 1: f64, 2: i64
  double value;
};

struct UpdateArguments {
  int64_t n;
  void *model, *copy; // copy: null for none
  const void *diff;
  const int64_t *skipIf; // null for none
  DeviceScalar rate, scaleBy;
  double rateScale, scale, l1, l2, weightDecay;
  int32_t diffKind, copyKind; // 0: the model's type, 1: f16, 2: bf16
  // momentum_update; lars_update has beta and momentum, adagrad_update the sum in its place
  void *momentum;
  double beta, keep;
  int32_t nesterov, maximize;
  // adam_update, lamb_update; rmsprop_update has the means of squares and of gradients in m and v
  void *m, *v, *maxV; // maxV: null without amsgrad
  DeviceScalar correction1, correction2;
  double beta1, beta2, rest1, rest2, epsilon;
  // adagrad_update
  DeviceScalar step;
  double rateDecay;
  // lamb_update, lars_update and their norms
  void *power1, *power2; // null for none
  double *partials;      // sums of squares of parts: of the model, of the other
  double *norms;         // of the whole
  int64_t parts;
  double coefficient;
  int32_t takesMoments, unused;
};

/// Updates that one launch does. A block takes chunks of their elements.
struct UpdateTable {
  static constexpr int32_t kMost = 80; // parameters of a kernel are of 32,764 bytes at most
  static constexpr int64_t kChunk = 2048;
  int32_t count, unused;
  int64_t ends[kMost]; // by update: chunks of it and those before it
  UpdateArguments updates[kMost];
};
static_assert(sizeof(UpdateTable) <= 32764);

/// learning_rate_schedule.
enum class DecayForm : int32_t {
  kNone,
  kExponential,
  kInverseTime,
  kNaturalExp,
  kPiecewiseConstant,
  kPolynomial,
  kCosine,
  kLinearCosine,
  kPiecewiseScaling,
  kMultiStep,
  kStep,
  kCosineAnnealing,
  kLinear,
  kConstant,
};
struct ScheduleArguments {
  static constexpr int kPieces = 128;
  const int64_t *step;
  void *out;
  cuda::IndexFault *fault; // of a step less than 0
  DecayForm form;
  int32_t isDouble, hasWarmup, warmupIsConstant, excludesWarmup, staircase, cycle;
  int32_t pieces; // boundaries or milestones
  double rate, warmupMultiplier, decayRate, endRate, power, alpha, periods, beta, gamma, etaMin, startFactor, endFactor,
      factor;
  int64_t warmupBatches, decayBatches, stepSize, tMax, totalIters;
  int64_t boundaries[kPieces];
  float values[kPieces + 1];
};

} // namespace opc::ops
