// What the gradient rules of the normalisations, of their statistics and of their gradients are made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "normalization/NormShape.h"
#include "support/GradientSteps.h"

namespace opc::ops::norm {

using Ints = std::vector<int32_t>;
using Strings = std::vector<std::string>;

/// How a normalisation sees x: in the shape `view`, normalised over `axes`; statistics have the shape `stat` and the
/// parameters `parameter`, both of which broadcast to the view.
struct NormView {
  Shape view, stat, parameter;
  Ints axes;
  bool centered = true; // a mean is subtracted (not for rms_norm)
  const char *mean = "mean", *inverse = "inv_variance", *gamma = "gamma";

  double count() const {
    int64_t n = 1;
    for (int32_t a : axes) n *= view.At(a);
    return static_cast<double>(n);
  }
};

/// Begins a backward op over dy, x and the forward op's statistics.
GradientOp backwardOp(GradientRule &g, const char *type, const char *suffix, const std::string &dy,
                      const NormView &view);
/// What the outputs mean and inverse add to x's gradient: dmean / n - dinverse inverse^3 (x - mean) / n. Empty when
/// nobody used them.
std::string fromStatistics(GradientRule &g, const NormView &view);
/// The gradient of x: the sum of the two, either of which may be empty.
void bindX(GradientRule &g, const std::string &a, const std::string &b);
/// The gradient of x by way of y, whose gradient is `dy` unless that is empty, and of the statistics. Backward op `op`
/// takes these attributes of the forward op.
void bindX(GradientRule &g, const char *op, const std::string &dy, const NormView &view,
           std::initializer_list<const char *> attributes);
/// Parameters of a half-typed x may be of the half type; their gradients are computed in f32.
void bindParameter(GradientRule &g, const char *arg, const std::string &a);

/// The outputs of a gradient op that normalise (`dx`), and that sum to the parameters; null when it has none.
struct GradOutputs {
  const char *dx, *gamma, *beta;
};

/// With P(u) = u - mean(u) - xhat mean(u xhat), d = dy gamma: dx = inverse P(d), gamma_diff = sum(dy xhat), beta_diff =
/// sum(dy), as functions of dy, x, mean, inverse and gamma, each by itself. P is symmetric. With v = ddx, m2 =
/// mean(d xhat) and m3 = mean(v xhat):
///   d d = inverse P(v), d x = -inverse^2 (v m2 + d m3), d mean = -sum(d x), d inverse = sum(v dx) / inverse - 2 n m2
///   m3.
/// With u the upstream of gamma_diff and b of beta_diff:
///   d dy = u xhat + b, d x = u dy inverse, d mean = -sum(d x), d inverse = sum(u dy (x - mean)).
void secondGradient(GradientRule &g, const NormView &view, GradOutputs outputs);

} // namespace opc::ops::norm
