// Files of other kinds that are taken for graphs: what they are, and the way out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace opc {

struct ForeignFile {
  std::string kind; // "a gzip archive"
  std::string help; // what to do with one, with the file's name in it
};

/// Whether the bytes are an ONNX model, or the beginning of one.
bool looksLikeOnnx(std::string_view bytes);

/// Whether the bytes are MLIR, as text or bytecode.
bool looksLikeMlir(std::string_view bytes);

/// What the bytes are when they are of a kind that people take for graphs, or that opc itself writes. Only for bytes
/// that are no graph: a few kinds are told by little.
std::optional<ForeignFile> recognizeFile(const std::string &name, std::string_view bytes);

} // namespace opc
