// Names of an ONNX model in messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PrintableText.h"

#include <string>

namespace opc::onnx {

constexpr size_t kMaxName = 4096; // bytes

inline std::string shown(const std::string &name) {
  std::string text = printableName(name);
  return text.size() > 200 ? text.substr(0, 200) + "..." : text;
}

} // namespace opc::onnx
