// Which of the functions on rows this processor takes.
// SPDX-License-Identifier: Apache-2.0
#include "RowMath.h"

#include "opc/ProcessorLevel.h"

namespace opc::cpu {

const RowMath &rowMath() {
  static const RowMath &chosen = usesLevelV4() ? kRowMathV4 : kRowMathV3;
  return chosen;
}

} // namespace opc::cpu
