// What of x86-64's levels this process takes for code that is there for several.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc {

/// Whether the processor has what x86-64-v4 adds: AVX-512 F, BW, CD, DQ and VL.
bool hasLevelV4();
/// The same, and OPC_CODE_LEVEL is not "v3" or "none". Other values are the commands' to refuse.
bool usesLevelV4();

} // namespace opc
