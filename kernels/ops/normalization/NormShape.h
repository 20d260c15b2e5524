// How a normalisation sees x, and the checks and rules that normalisations have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Operator.h"
#include "support/SbpRules.h"

namespace opc::ops::norm {

/// x as [outer, channels, inner]: around an axis, or (channels 1) rows of `inner` elements.
struct NormShape {
  static NormShape aroundAxis(const Shape &x, int64_t axis) {
    return {x.Count(0, axis), x.At(axis), x.Count(axis + 1)};
  }
  static NormShape rowsFrom(const Shape &x, int64_t begin) { return {x.Count(0, begin), 1, x.Count(begin)}; }
  int64_t outer, channels, inner;
};
/// Around the attribute axis, for the argument `x` of a kernel.
NormShape shapeAroundAxis(const KernelContext *ctx, const char *x);
/// An axis that an attribute (of type Int) names.
template <class Int> Maybe<int64_t> axisOf(const OpContext *ctx, const char *attr, const Shape &x) {
  return resolveAxis(ctx->Attr<Int>(attr), x.NumAxes(), attr);
}

/// Dimensions [0, end) of a shape, and [begin, rank).
inline Shape leading(const Shape &s, int64_t end) { return Shape(DimVector(s.begin(), s.begin() + end)); }
inline Shape trailing(const Shape &s, int64_t begin) { return Shape(DimVector(s.begin() + begin, s.end())); }

/// The element type of statistics (mean, inverse deviation): f32 for the half types, the input's own otherwise.
inline DataType statisticsType(DataType input) { return input == kDouble ? kDouble : kFloat; }

/// `arg`, if given, must have `shape` and the input's element type or that of its statistics.
Maybe<void> checkParameter(InferContext *ctx, const std::string &arg, const Shape &shape, const std::string &why);
/// The input must be floating.
Maybe<void> checkFloating(const std::string &arg, const TensorDesc &desc);
/// `arg`, if given, has x's type.
Maybe<void> checkLikeX(InferContext *ctx, const char *arg);
/// The statistics have `shape`, and the element type of x's statistics.
Maybe<void> checkStatistics(InferContext *ctx, const Shape &shape, const std::string &why);
/// An optional parameter and the switch that announces it must agree.
Maybe<void> checkSwitch(InferContext *ctx, const std::string &attr, const std::string &arg);
Maybe<void> checkEpsilon(double epsilon);
/// These outputs, as far as they are there, are statistics of x, or as precise, of the given shape.
void setStatistics(InferContext *ctx, std::initializer_list<const char *> outputs, const Shape &shape);

/// The term of a tensor that has x's dimensions [0, end) and may be split along them.
inline AxisFactors leadingFactors(int64_t end) {
  AxisFactors factors = axisFactors(end);
  return factors.push_back(".."), factors;
}

/// Part of a definition: how exact the half types are.
void halfTolerances(OpRegistry &op);
/// A statistic in a case; those of half types are f32.
Case &addStatistic(Case &c, const char *arg, const Shape &shape, double lo, double hi, bool half);
/// The element types of a case with statistics.
std::vector<DataType> caseTypes(bool half);

} // namespace opc::ops::norm
