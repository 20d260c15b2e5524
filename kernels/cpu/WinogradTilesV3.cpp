// Winograd's tiles for x86-64-v3.
// SPDX-License-Identifier: Apache-2.0
#include "WinogradTilesLoops.h"

namespace opc::cpu {
extern const WinogradTiles kWinogradTilesV3;
const WinogradTiles kWinogradTilesV3 = kLoops;
} // namespace opc::cpu
