// What the device code of normalisations is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

/// A parameter or moving statistic: of x's element type, or of that of its statistics (f32 for f16 and bf16).
struct NormVector {
  void *data; // null when there is none
  int32_t likeX, unused;
};

/// Where an element of x finds its statistics and parameters.
///   parameter(e) = e / parameterInner % parameters
///   statistic(e) = e / sample * perSample + e % sample / inner % channels / own
struct NormPlaces {
  int64_t parameterInner, parameters;
  int64_t sample, perSample, inner, channels, own;
};

/// What is normalised together: element k of group g is at
///   g / perOuter * outerStep + g % perOuter * innerStep + k / run * runStep + k % run
struct NormGroups {
  int64_t groups, count; // elements of a group
  int64_t perOuter, outerStep, innerStep, run, runStep;
};

struct NormArguments {
  const void *x, *dy, *add; // dy in gradients; null what is not given
  void *out;                // y or dx
  void *mean, *inverse;     // of the statistics' type; read by gradients
  void *gammaDiff, *betaDiff;
  NormVector gamma, beta, movingMean, movingVariance;
  NormPlaces places;
  NormGroups groups;
  int64_t elements;
  double epsilon, momentum, count;         // count: elements of a statistic
  int32_t centered, training, silu, width; // width: parameters side by side in a block
};

} // namespace opc::ops
