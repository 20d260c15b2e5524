// Numbers of a training step: learning rates, corrections of Adam's bias, the scale of the loss. One thread each.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceTypes.cuh"
#include "IndexFault.cuh"
#include "optimizer/UpdateArguments.h"

namespace opc::cuda {
namespace {

using ops::DecayForm;
using ops::ScheduleArguments;

__device__ inline void put(void *out, int32_t isDouble, double value) {
  if (isDouble)
    *static_cast<double *>(out) = value;
  else
    *static_cast<float *>(out) = static_cast<float>(value);
}

__device__ inline double correction(double beta, int64_t step) { return 1 - pow(beta, static_cast<double>(step) + 1); }

/// Boundary i is the last step of piece i.
__device__ inline int pieceOf(const ScheduleArguments &a, int64_t step) {
  int i = 0;
  while (i < a.pieces && step > a.boundaries[i]) ++i;
  return i;
}

/// The formulas of the CPU.
__device__ double decayed(const ScheduleArguments &a, int64_t step) {
  constexpr double kPi = 3.14159265358979323846;
  const double k = static_cast<double>(step), n = static_cast<double>(a.decayBatches);
  const double x = a.decayBatches ? k / n : 0, whole = a.staircase ? floor(x) : x, part = x < 1 ? x : 1;
  const double toGo =
      a.totalIters ? static_cast<double>(step < a.totalIters ? step : a.totalIters) / static_cast<double>(a.totalIters)
                   : 0;
  switch (a.form) {
  case DecayForm::kExponential: return a.rate * pow(a.decayRate, whole);
  case DecayForm::kInverseTime: return a.rate / (1 + a.decayRate * whole);
  case DecayForm::kNaturalExp: return a.rate * exp(-a.decayRate * whole);
  case DecayForm::kPiecewiseConstant: return static_cast<double>(a.values[pieceOf(a, step)]);
  case DecayForm::kPiecewiseScaling: return a.rate * static_cast<double>(a.values[pieceOf(a, step)]);
  case DecayForm::kPolynomial: {
    const double turns = ceil(x), length = a.cycle ? n * (turns > 1 ? turns : 1) : n;
    return (a.rate - a.endRate) * pow(1 - (k < length ? k : length) / length, a.power) + a.endRate;
  }
  case DecayForm::kCosine: return a.rate * ((1 - a.alpha) * 0.5 * (1 + cos(kPi * part)) + a.alpha);
  case DecayForm::kLinearCosine:
    return a.rate * ((a.alpha + 1 - part) * 0.5 * (1 + cos(2 * kPi * a.periods * part)) + a.beta);
  case DecayForm::kMultiStep: {
    int reached = 0;
    while (reached < a.pieces && a.boundaries[reached] <= step) ++reached;
    return a.rate * pow(a.gamma, static_cast<double>(reached));
  }
  case DecayForm::kStep: return a.rate * pow(a.gamma, static_cast<double>(step / a.stepSize));
  case DecayForm::kCosineAnnealing:
    return a.etaMin + (a.rate - a.etaMin) * (1 + cos(kPi * k / static_cast<double>(a.tMax))) / 2;
  case DecayForm::kLinear: return a.rate * (a.startFactor + (a.endFactor - a.startFactor) * toGo);
  case DecayForm::kConstant: return step < a.totalIters ? a.rate * a.factor : a.rate;
  default: return a.rate;
  }
}

} // namespace

extern "C" __global__ void __launch_bounds__(32, 1)
    learning_rate_schedule(const __grid_constant__ ScheduleArguments a) {
  if (threadIdx.x != 0) return;
  const int64_t step = *a.step;
  if (step < 0) return reportIndex(a.fault, 0, step);
  double value;
  if (a.hasWarmup && step < a.warmupBatches)
    value = a.warmupIsConstant
                ? a.rate * a.warmupMultiplier
                : a.rate * (a.warmupMultiplier + (1 - a.warmupMultiplier) * (static_cast<double>(step) /
                                                                             static_cast<double>(a.warmupBatches)));
  else
    value = decayed(a, a.excludesWarmup && a.hasWarmup ? step - a.warmupBatches : step);
  put(a.out, a.isDouble, value);
}

extern "C" __global__ void __launch_bounds__(32, 1)
    adam_bias_correction_factor(const int64_t *step, double beta, void *out, int32_t isDouble) {
  if (threadIdx.x == 0) put(out, isDouble, correction(beta, *step));
}

extern "C" __global__ void __launch_bounds__(32, 1)
    adam_bias_correction_learning_rate(const void *rate, const int64_t *step, double beta1, double beta2, void *out,
                                       int32_t isDouble) {
  if (threadIdx.x != 0) return;
  const double r =
      isDouble ? *static_cast<const double *>(rate) : static_cast<double>(*static_cast<const float *>(rate));
  put(out, isDouble, r * sqrt(correction(beta2, *step)) / correction(beta1, *step));
}

extern "C" __global__ void __launch_bounds__(32, 1)
    dynamic_loss_scale_schedule(const int64_t *count, float *scale, int64_t *good, int64_t period, double multiplier,
                                const int64_t *skip) {
  if (threadIdx.x != 0 || (skip && *skip != 0)) return;
  const double now = static_cast<double>(*scale);
  if (*count != 0) {
    *good = 0;
    const double less = now / multiplier;
    *scale = static_cast<float>(less > 1 ? less : 1);
  } else if (*good + 1 < period) {
    ++*good;
  } else {
    *good = 0;
    const double more = now * multiplier, most = static_cast<double>(FLT_MAX);
    *scale = static_cast<float>(more < most ? more : most);
  }
}

} // namespace opc::cuda
