// What the backward ops of layer_norm and rms_norm share, and their gradient rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "normalization/NormRows.h"
#include "normalization/NormSteps.h"
#include "support/Rows.h"
#include "support/SbpRules.h"

namespace opc::ops::norm {

/// The arguments of the two.
template <bool Rms> constexpr const char *kInverse = Rms ? "inv_rms" : "inv_variance";
template <bool Rms> constexpr const char *kGamma = Rms ? "weight" : "gamma";

/// The inputs of a backward op.
template <bool Rms> void gradientInputs(OpRegistry &op) {
  op.GradientOf(Rms ? "rms_norm" : "layer_norm").Input("dy").Input("x");
  if (!Rms) op.Input("mean");
  op.Input(kInverse<Rms>);
}

/// dy has x's type, and each of the statistics x's leading dimensions; gives how many those are.
template <bool Rms> Maybe<int64_t> checkInputs(InferContext *ctx) {
  const TensorDesc &x = ctx->In("x");
  JUST(checkFloating("x", x));
  JUST(checkLikeX(ctx, "dy"));
  const int64_t lead = ctx->In(Rms ? "inv_rms" : "mean").shape().NumAxes();
  const DataType type = statisticsType(x.data_type());
  for (const char *s : {"mean", kInverse<Rms>})
    if (ctx->Has(s) && (lead > x.shape().NumAxes() || ctx->In(s) != TensorDesc(leading(x.shape(), lead), type)))
      return Error::ShapeMismatch() << s << " is " << ctx->In(s).toString() << ", expected " << dataTypeName(type)
                                    << " with the leading dimensions of x, " << x.toString();
  return lead;
}

/// How a kernel sees x: rows, as many as there are statistics.
template <bool Rms> NormShape rowsOf(const KernelContext *ctx) {
  return NormShape::rowsFrom(ctx->Desc("x").shape(), ctx->Desc(kInverse<Rms>).shape().NumAxes());
}

/// x normalised from dimension `begin` on. Parameters have the shape of gamma, or x's dimensions from `params` on.
template <bool Rms> NormView rowsView(GradientRule &g, int64_t begin, int64_t params) {
  const Shape &x = g.shape("x");
  NormView v;
  v.view = x;
  DimVector stat(x.begin(), x.begin() + begin);
  for (int64_t a = begin; a < x.NumAxes(); ++a) {
    stat.push_back(1);
    v.axes.push_back(static_cast<int32_t>(a));
  }
  v.stat = Shape(stat);
  v.centered = !Rms;
  if (Rms) v.mean = nullptr;
  v.inverse = kInverse<Rms>;
  v.gamma = kGamma<Rms>;
  v.parameter = g.hasInput(v.gamma) ? g.shape(v.gamma) : trailing(x, params);
  return v;
}

inline Case gradCase(const char *name, const Shape &x) { return Case(name).In("dy", x).In("x", x, -3, 3); }
/// The case with statistics of the leading dimensions.
template <bool Rms> Case withStatistics(Case c, const Shape &lead, bool half = false) {
  if (!Rms) addStatistic(c, "mean", lead, 0.5, 1.5, half);
  return addStatistic(c, kInverse<Rms>, lead, 0.5, 1.5, half).Types(caseTypes(half));
}

} // namespace opc::ops::norm
