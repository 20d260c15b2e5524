// Gradient rules of pad, constant_pad1d, constant_pad2d and constant_pad3d.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

/// The op `pad` itself: negated paddings cut what was added, and put zeros where the forward op cut.
auto padGradient(const char *pad, std::vector<const char *> lists) {
  return gradientRule([=](GradientRule &g) {
    if (!g.needs("x")) return;
    auto back = g.add(pad, "x");
    back.in("x", g.dy("y"));
    for (const char *name : lists) {
      auto list = g.attr<std::vector<int64_t>>(name);
      for (int64_t &p : list) p = -p;
      back.attr(name, list);
    }
    g.bind("x", back.out("y"));
  });
}
REGISTER_USER_OP_GRAD("pad").SetBackwardOpConfGenFn(padGradient("pad", {"padding_before", "padding_after", "padding"}));
REGISTER_USER_OP_GRAD("constant_pad1d").SetBackwardOpConfGenFn(padGradient("constant_pad1d", {"padding"}));
REGISTER_USER_OP_GRAD("constant_pad2d").SetBackwardOpConfGenFn(padGradient("constant_pad2d", {"padding"}));
REGISTER_USER_OP_GRAD("constant_pad3d").SetBackwardOpConfGenFn(padGradient("constant_pad3d", {"padding"}));

} // namespace
} // namespace opc::ops
