// Gradient rule of gather_nd.
// SPDX-License-Identifier: Apache-2.0
#include "support/LinearGradient.h"

namespace opc::ops {
namespace {

REGISTER_USER_OP_GRAD("gather_nd")
    .SetBackwardOpConfGenFn(linearGradient({"params", "out"}, "scatter_nd_like", {"updates", "out"}, {},
                                           {{"like", "params"}, {"indices", "indices"}}));

} // namespace
} // namespace opc::ops
