// The files beside an ONNX model that hold its tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace opc::cli {

/// Where the tensors of the model at `path` lie (external data): paths in its folder, in their order, each once. Of
/// whatever is no ONNX model in a regular file, none.
std::vector<std::string> modelDataFiles(const std::string &path);

} // namespace opc::cli
