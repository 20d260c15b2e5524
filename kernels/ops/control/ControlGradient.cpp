// Gradient rules of if and loop, which say who differentiates them.
// SPDX-License-Identifier: Apache-2.0
#include "support/Operator.h"

namespace opc::ops {
namespace {

/// A rule sees one op; that of an op with graphs is made of the rules of their ops (compiler/autodiff).
Maybe<void> needsGraphs(BackwardOpConfContext *) {
  return Error("OPC0504") << "an op with graphs is differentiated by the compilation of the whole graph: opc compile, "
                             "opc grad, opc run";
}

} // namespace

REGISTER_USER_OP_GRAD("if").SetBackwardOpConfGenFn(needsGraphs);
REGISTER_USER_OP_GRAD("loop").SetBackwardOpConfGenFn(needsGraphs);

} // namespace opc::ops
