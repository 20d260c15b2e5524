// The attributes that ONNX's ops have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace opc::onnx {

/// Of an op of ONNX's own domain, in all of its versions; null for an op that is not in the table.
const std::vector<std::string> *attributesOf(const std::string &op);

} // namespace opc::onnx
