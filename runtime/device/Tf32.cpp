// What a thread has said of TF32.
// SPDX-License-Identifier: Apache-2.0
#include "Tf32.h"

namespace opc::runtime {
namespace {

thread_local bool isAllowed = false;

} // namespace

bool isTf32Allowed() { return isAllowed; }
void setTf32Allowed(bool allowed) { isAllowed = allowed; }

} // namespace opc::runtime
