// The gradient rule of an op that is linear in an input: one backward op.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/GradientSteps.h"

namespace opc::ops {

/// An input of an op and an output of it.
struct Ends {
  const char *in, *out;
};
/// The rule of an op that is linear from `forward.in` to `forward.out`: the gradient goes through an op `type` from
/// `backward.in` to `backward.out`, which has the named attributes of the forward op. `inputs` lists its other inputs,
/// each with the forward op's input that it is.
inline auto linearGradient(Ends forward, std::string type, Ends backward, std::vector<const char *> attrs = {},
                           std::vector<std::pair<const char *, const char *>> inputs = {}) {
  return gradientRule([=](GradientRule &g) {
    if (!g.needs(forward.in)) return;
    auto op = g.add(type, forward.in);
    op.in(backward.in, g.dy(forward.out));
    for (const auto &[arg, given] : inputs) op.in(arg, g.x(given));
    for (const char *name : attrs) op.same({name});
    g.bind(forward.in, op.out(backward.out));
  });
}

} // namespace opc::ops
