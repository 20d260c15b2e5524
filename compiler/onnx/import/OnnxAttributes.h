// The inputs, outputs, versions and attributes that ONNX's ops have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opc::onnx {

/// Of all versions of an op.
struct OpForm {
  /// The most that there can be (none: any number), and from which operator set on.
  using Counts = std::vector<std::pair<int64_t, std::optional<size_t>>>;
  Counts inputs, outputs;
  std::vector<int64_t> versions; // of the operator set, in which it has come and changed
  std::vector<std::string> attributes;
  std::map<std::string, std::pair<int64_t, int64_t>> sets; // the first and the last that have an attribute, if not all
  std::map<std::string, std::vector<std::string>> values;  // that an attribute can have, where they are few
};

/// The count in a version of the operator set.
std::optional<size_t> mostIn(const OpForm::Counts &counts, int64_t version);

/// Of an op of ONNX's own domain (no name) or of ONNX Runtime's; null for an op that is not in the table.
const OpForm *formOf(const std::string &domain, const std::string &op);

} // namespace opc::onnx
