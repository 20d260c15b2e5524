// The gradient rules of the recurrent layers.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentBackward.h"

namespace opc::ops {

std::function<void(BackwardOpConfContext *)> recurrentGradientRule(CellKind kind, const char *gradient) {
  return gradientRule([=](GradientRule &g) {
    static constexpr const char *kArgs[] = {"x", "weight", "recurrence", "bias", "initial_h", "initial_c", "peephole"};
    const auto has = [&](const char *arg) { return g.hasInput(arg); };
    bool any = false;
    for (const char *arg : kArgs) any |= has(arg) && g.needs(arg);
    if (!any) return;
    auto grad = g.add(gradient, "x");
    for (const char *arg : {"x", "weight", "recurrence", "bias", "lengths", "initial_h", "initial_c", "peephole"})
      if (has(arg)) grad.in(arg, g.x(arg));
    grad.in("y", g.y("y"));
    for (const char *arg : {"y", "y_h", "y_c"})
      if (g.hasOutput(arg) && g.hasDy(arg)) grad.in(std::string("d") + arg, g.dy(arg));
    grad.same({"direction", "batch_first", "activations", "activation_alpha", "activation_beta", "clip"});
    if (kind == CellKind::kLstm) grad.same({"input_forget"});
    if (kind == CellKind::kGru) grad.same({"linear_before_reset"});
    for (const char *arg : {"bias", "initial_h", "initial_c", "peephole"})
      if (has(arg) && g.needs(arg)) grad.output(std::string("d") + arg);
    for (const char *arg : kArgs)
      if (has(arg) && g.needs(arg)) g.bind(arg, grad.out(std::string("d") + arg));
  });
}

std::function<void(BackwardOpConfContext *)> noSecondGradient(const char *op) {
  return gradientRule([op = std::string(op)](GradientRule &) {
    throw ContractError("second derivatives of " + op + " are not provided");
  });
}

} // namespace opc::ops
