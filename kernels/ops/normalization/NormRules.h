// What the rules of the normalisations have in common.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

namespace opc::ops {

/// The element type of statistics (mean, inverse deviation): f32 for the half types, the input's own otherwise.
inline DataType statisticsType(DataType input) { return input == kDouble ? kDouble : kFloat; }

/// `arg`, if given, must have `shape` and the input's element type or that of its statistics.
Maybe<void> checkParameter(user_op::InferContext *ctx, const std::string &arg, const Shape &shape,
                           const std::string &why, const std::string &input = "x");
/// The input must be floating.
Maybe<void> checkFloating(const std::string &arg, const user_op::TensorDesc &desc);
/// An optional parameter and the switch that announces it must agree.
Maybe<void> checkSwitch(user_op::InferContext *ctx, const std::string &attr, const std::string &arg);
Maybe<void> checkEpsilon(double epsilon);

} // namespace opc::ops
