// Which branches and turns of a model, that only a run decides, become graphs of ops (if, loop).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc {

enum class GraphsInOps : uint8_t {
  kAll,
  kLoops, // both branches of an If are computed: whoever looks at every tensor finds those of both
  kNone,  // turns are written out, too: several devices, GPUs and sizes in a range know no such ops
};

} // namespace opc
