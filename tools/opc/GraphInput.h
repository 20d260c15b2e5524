// The graph or plan that a command was given, and the shapes that go with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Pipeline.h"

#include <map>
#include <string>
#include <vector>

namespace opc::cli {

struct GraphInput {
  std::string path; // as given
  std::string name; // what diagnostics call it: the path, or "<stdin>"
  std::string bytes;
  bool isPlan = false;
};

/// Reads a file, or standard input for "-". Errors: OPC0706.
Result<GraphInput> readGraphInput(const std::string &path);

/// "x=32,784", repeated, by input name. Errors: OPC0003.
Result<std::map<std::string, std::vector<int64_t>>> parseShapeFlags(const std::vector<std::string> &flags);

/// Whether `path` may be written: its directory exists, it is no directory, it is not the file that was read.
/// "-" is always fine. Errors: OPC0002.
Status checkOutputPath(const std::string &path, const std::string &inputPath);

/// The file name without directories and extension: "mlp" of "nets/mlp.pbtxt".
std::string graphStem(const std::string &path);

/// "f32[2,3]"; "?" for an unknown dtype or dimension.
std::string typeText(DataType type, const Shape &shape);

/// True when an input leaves a dimension or its dtype open.
bool hasOpenInputs(const GraphInfo &info);

} // namespace opc::cli
