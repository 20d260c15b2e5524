// The note that passes from a kernel's Bind to the host, in the thread that binds.
// SPDX-License-Identifier: Apache-2.0
#include "opc/PackedInputs.h"

#include <utility>

namespace opc::user_op {

static thread_local std::vector<const void *> packed;

void notePackedInput(KernelBindContext *ctx, const std::string &arg, int32_t index) {
  if (const Tensor *t = ctx->Tensor4ArgNameAndIndex(arg, index)) packed.push_back(t->raw_dptr());
}

std::vector<const void *> takePackedInputs() { return std::exchange(packed, {}); }

} // namespace opc::user_op
