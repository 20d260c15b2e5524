// Winograd's tiles for x86-64-v4: this file has options of its own, and nothing in it may be called elsewhere.
// SPDX-License-Identifier: Apache-2.0
#include "WinogradTilesLoops.h"

namespace opc::cpu {
extern const WinogradTiles kWinogradTilesV4;
const WinogradTiles kWinogradTilesV4 = kLoops;
} // namespace opc::cpu
