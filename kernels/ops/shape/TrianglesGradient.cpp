// Gradient rules of tril and triu: the other triangle holds a constant, which no input changes.
// SPDX-License-Identifier: Apache-2.0
#include "support/LinearGradient.h"

namespace opc::ops {
namespace {

REGISTER_USER_OP_GRAD("tril").SetBackwardOpConfGenFn(linearGradient({"in", "out"}, "tril", {"in", "out"},
                                                                    {"diagonal"}));
REGISTER_USER_OP_GRAD("triu").SetBackwardOpConfGenFn(linearGradient({"in", "out"}, "triu", {"in", "out"},
                                                                    {"diagonal"}));

} // namespace
} // namespace opc::ops
