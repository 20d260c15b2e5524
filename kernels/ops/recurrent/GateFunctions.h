// The functions of the gates of recurrent layers, as ONNX names and defines them, with their slopes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recurrent/GateMath.h"
#include "support/Operator.h"

namespace opc::ops {

/// The functions of these names. Those that have an alpha or a beta take them from the lists, one after another; where
/// a list has ended, the usual value.
Maybe<std::vector<GateFunction>> gateFunctions(const std::vector<std::string> &names, const std::vector<float> &alphas,
                                               const std::vector<float> &betas);

/// values = f(values), of numbers held in [-clip, clip] where clip is not 0. With `slopes`: the derivatives, which are
/// 0 beyond the clip.
template <class T> void applyGate(const GateFunction &f, double clip, T *values, T *slopes, int64_t n);

extern template void applyGate(const GateFunction &, double, float *, float *, int64_t);
extern template void applyGate(const GateFunction &, double, double *, double *, int64_t);

} // namespace opc::ops
