// Says it to the devices that the thread opens.
// SPDX-License-Identifier: Apache-2.0
#include "AllowTf32.h"

#include "Tf32.h"

namespace opc {

AllowTf32::AllowTf32(bool isAllowed) : before_(runtime::isTf32Allowed()) { runtime::setTf32Allowed(isAllowed); }
AllowTf32::~AllowTf32() { runtime::setTf32Allowed(before_); }

} // namespace opc
