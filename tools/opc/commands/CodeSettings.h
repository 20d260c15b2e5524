// Machine code for regions as the flags and the settings want it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CodeCache.h"
#include "Invocation.h"

#include <memory>

namespace opc::cli {

/// Where machine code is kept, by [cache] of the settings. Null where nothing is to be kept. Errors: OPC0010.
Result<std::unique_ptr<codegen::CodeCache>> codeCache(const Config &config);
/// Sets the compiler of regions that this process has: none with --no-codegen or target.codegen = false. A cache that
/// cannot be trusted is left alone, which a note says.
Status setUpCode(Invocation &invocation);

} // namespace opc::cli
