// Gradient rule of dim_gather.
// SPDX-License-Identifier: Apache-2.0
#include "support/LinearGradient.h"

namespace opc::ops {
namespace {

REGISTER_USER_OP_GRAD("dim_gather")
    .SetBackwardOpConfGenFn(linearGradient({"input", "output"}, "dim_scatter_add_like", {"src", "output"}, {"dim"},
                                           {{"like", "input"}, {"index", "index"}}));

} // namespace
} // namespace opc::ops
