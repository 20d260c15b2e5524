// Which code for Winograd's tiles this processor takes.
// SPDX-License-Identifier: Apache-2.0
#include "WinogradTiles.h"

#include "opc/ProcessorLevel.h"

namespace opc::cpu {

const WinogradTiles &winogradTiles() {
  static const WinogradTiles &chosen = usesLevelV4() ? kWinogradTilesV4 : kWinogradTilesV3;
  return chosen;
}

} // namespace opc::cpu
