// Where in its file an op of the graph stands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace opc {

/// Lines and columns count from 1; without a file nothing is known.
struct GraphPlace {
  std::string file;
  uint32_t line = 0, column = 0;
  bool known() const { return !file.empty(); }
  /// " at mlp.pbtxt:14:3", " at model.onnx: node 17 "fc"", or nothing.
  std::string at() const { return known() ? " at " + text() : ""; }
  std::string text() const { return line ? file + ":" + std::to_string(line) + ":" + std::to_string(column) : file; }
};

} // namespace opc
