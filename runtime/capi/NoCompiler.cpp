// libopc has no compiler: it links no LLVM.
// SPDX-License-Identifier: Apache-2.0
#include "CapiCalls.h"

namespace opc::capi {

Result<std::string> compileGraphFile(const Registry &, const std::string &path) {
  return Status(StatusCode::kUnsupported, "OPC0907", "cannot compile " + path + ": this library has no compiler")
      .withHelp("link libopc_compiler in place of libopc, or run: opc compile " + path);
}

} // namespace opc::capi
