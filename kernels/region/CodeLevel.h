// For which processors code is made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <cstdint>
#include <string_view>

namespace opc {

/// x86-64's levels: v3 has AVX2 and FMA, v4 AVX-512.
enum class CodeLevel : uint8_t { kNone, kV3, kV4 };

/// What OPC_CODE_LEVEL says; empty where it is not set or empty.
std::string_view wantedCodeLevel();
/// Whether that is a level.
bool isCodeLevel(std::string_view text);
/// OPC0001 where OPC_CODE_LEVEL is set to something else.
Status checkCodeLevel();
/// The best level that this processor has.
CodeLevel processorLevel();
/// The same, or that of OPC_CODE_LEVEL ("none", "v3", "v4") if that is less.
CodeLevel codeLevel();
/// "v3".
const char *codeLevelName(CodeLevel level);

} // namespace opc
