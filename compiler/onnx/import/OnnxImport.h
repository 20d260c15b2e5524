// ONNX models -> graphs of opc's ops (docs/adr/0016-onnx-import.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFile.h"
#include "GraphsInOps.h"
#include "ModelRequest.h"
#include "Registry.h"
#include "SharedBytes.h"
#include "SizeRequest.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace opc::onnx {

struct ImportRequest {
  /// What diagnostics call the model, and where it lies: its tensors may be in files beside it.
  std::string name;
  uint64_t maxBytes = 0;
  /// By input; they bind the names of sizes, too.
  std::map<std::string, std::vector<int64_t>> shapes;
  ModelRequest model;
  GraphsInOps graphs = GraphsInOps::kAll;
  /// Where there are any, the graph is one for every size of these ranges, and GraphFile::sizeDims says which inputs
  /// have them.
  SizeRequest sizes = {};
};

/// The model as a graph file. Where an input leaves a dimension open that nothing binds, the inputs alone. Errors go to
/// `diagnostics`; returns null on error.
std::unique_ptr<GraphFile> importModel(const SharedBytes &bytes, const Registry &registry, const ImportRequest &request,
                                       std::vector<Diagnostic> *diagnostics);

} // namespace opc::onnx
