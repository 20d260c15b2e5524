// The ops of other systems that opc imports, for tables of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace opc {

struct ImportedOp {
  std::string domain; // "": ONNX's own
  std::string name;
  std::vector<int64_t> versions; // of the operator set, in which it has come and changed
  std::string becomes;           // ops of opc
  std::string refuses;           // what of it is not possible; may be empty
};
/// ONNX's, sorted by domain and name.
std::vector<ImportedOp> importedOnnxOps();

} // namespace opc
