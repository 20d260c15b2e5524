// The running means of adam_update and lamb_update, and the corrections of their bias.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer/UpdateOp.h"

namespace opc::ops::optimizer {

/// Parts of a definition: the corrections and the means; the attributes.
inline void momentInputs(OpRegistry &op) {
  op.OptionalInput("bias_correction1").OptionalInput("bias_correction2").Input("m").Input("v");
}
inline void momentAttrs(OpRegistry &op) {
  op.Attr<float>("bias_correction1_val", 1.0f)
      .Attr<float>("bias_correction2_val", 1.0f)
      .Attr<float>("beta1", 0.9f)
      .Attr<float>("beta2", 0.999f)
      .Attr<float>("epsilon", 1e-8f);
}
inline Case momentCase(const char *name, const Shape &shape) {
  return updateCase(name, shape).In("m", shape).In("v", shape, 0, 1);
}

/// How the means take up a gradient, and how their bias is corrected.
template <class T> struct MomentRates {
  explicit MomentRates(KernelBindContext *ctx)
      : b1(static_cast<T>(real(ctx, "beta1"))), b2(static_cast<T>(real(ctx, "beta2"))),
        r1(static_cast<T>(1 - real(ctx, "beta1"))), r2(static_cast<T>(1 - real(ctx, "beta2"))),
        epsilon(static_cast<T>(real(ctx, "epsilon"))) {
    if (!ctx->Attr<bool>("do_bias_correction")) return;
    correction1 = RunScalar(ctx, "bias_correction1", real(ctx, "bias_correction1_val"));
    correction2 = RunScalar(ctx, "bias_correction2", real(ctx, "bias_correction2_val"));
  }
  T nextM(T m, T g) const { return b1 * m + r1 * g; }
  T nextV(T v, T g) const { return b2 * v + r2 * (g * g); }

  T b1, b2, r1, r2, epsilon;
  RunScalar correction1{1}, correction2{1};
};

template <class T> struct Moments : MomentRates<T> {
  explicit Moments(KernelBindContext *ctx) : MomentRates<T>(ctx), m(stateOf<T>(ctx, "m")), v(stateOf<T>(ctx, "v")) {}
  /// The means take up element i of the gradient; what they become.
  T takeM(int64_t i, T g) const { return m[i] = this->nextM(m[i], g); }
  T takeV(int64_t i, T g) const { return v[i] = this->nextV(v[i], g); }

  T *m, *v;
};

} // namespace opc::ops::optimizer
