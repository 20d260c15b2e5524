// The operators that tests run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

namespace opc::test {

/// Every operator that is linked into the program, frozen.
const Registry &registry();

} // namespace opc::test
