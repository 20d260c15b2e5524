// ONNX models -> graph files.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxImport.h"

#include "OnnxParsedModel.h"
#include "OnnxSizes.h"

#include <algorithm>
#include <utility>

namespace opc::onnx {
namespace {

Diagnostic invalidFile(const std::string &name, const char *code, std::string message, std::string help) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.help = std::move(help);
  d.range.file = name;
  return d;
}

} // namespace

std::unique_ptr<GraphFile> importModel(const SharedBytes &bytes, const Registry &registry, const ImportRequest &request,
                                       std::vector<Diagnostic> *diagnostics) {
  const uint64_t limit = std::min<uint64_t>(request.maxBytes ? request.maxBytes : INT32_MAX, INT32_MAX);
  if (bytes.size() > limit) {
    diagnostics->push_back(
        invalidFile(request.name, "OPC0110",
                    "the model has " + std::to_string(bytes.size()) + " bytes; the limit is " + std::to_string(limit),
                    "save the model with its tensors in a file beside it (external data)"));
    return nullptr;
  }
  ParsedModel model;
  if (!model.parse(bytes)) {
    diagnostics->push_back(
        invalidFile(request.name, "OPC0321",
                    "not a complete ONNX model: the bytes cannot be parsed, or messages lie in one another too deep",
                    "if the file was copied or downloaded, check that it is complete"));
    return nullptr;
  }
  auto file = importedForSizes(model, registry, request, diagnostics);
  if (file) file->name = request.name, file->format = "ONNX", file->isModel = true, file->keepsInterface = true;
  return file;
}

} // namespace opc::onnx
