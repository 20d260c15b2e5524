// The inputs, outputs, versions and attributes that ONNX's ops have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opc::onnx {

/// Of all versions of an op.
struct OpForm {
  std::optional<size_t> mostInputs, mostOutputs; // none: any number
  std::vector<int64_t> versions;                 // of the operator set, in which it has come and changed
  std::vector<std::string> attributes;
  std::map<std::string, std::vector<std::string>> values; // that an attribute can have, where they are few
};

/// Of an op of ONNX's own domain (no name) or of ONNX Runtime's; null for an op that is not in the table.
const OpForm *formOf(const std::string &domain, const std::string &op);

} // namespace opc::onnx
