// The ops of other systems that opc imports.
// SPDX-License-Identifier: Apache-2.0
#include "ImportedOps.h"
#include "OnnxConversion.h"

namespace opc {

std::vector<ImportedOp> importedOnnxOps() {
  std::vector<ImportedOp> list;
  for (const onnx::Converter *c : onnx::ConverterTable::get().list())
    list.push_back({c->domain, c->op, c->versions, c->to, c->note});
  return list;
}

} // namespace opc
