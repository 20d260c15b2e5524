// The graph or plan that a command was given.
// SPDX-License-Identifier: Apache-2.0
#include "GraphInput.h"

#include "TensorSpec.h"

#include <algorithm>
#include <filesystem>

namespace opc::cli {

namespace fs = std::filesystem;

Result<GraphInput> readGraphInput(const std::string &path) {
  if (path.empty())
    return Status(StatusCode::kUsage, "OPC0706", "the graph's path is empty")
        .withHelp("give a file, or - for standard input");
  Result<FileBytes> file = FileBytes::open(path);
  if (!file) return file.status();
  GraphInput input;
  input.path = path;
  input.name = path == "-" ? "<stdin>" : path;
  input.bytes = std::string(file->view());
  input.isPlan = looksLikePlan(input.bytes);
  return input;
}

Result<std::map<std::string, std::vector<int64_t>>> parseShapeFlags(const std::vector<std::string> &flags) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const std::string &flag : flags) {
    Result<std::pair<std::string, std::string>> named = splitNamed(flag, "--shape");
    if (!named) return named.status();
    Result<Shape> dims = parseDims(named->second);
    if (!dims) return dims.status();
    if (!shapes.emplace(named->first, dims->dim_vec()).second)
      return Status(StatusCode::kUsage, "OPC0003", "--shape is given twice for '" + named->first + "'");
  }
  return shapes;
}

Status checkOutputPath(const std::string &path, const std::string &inputPath) {
  auto error = [](const std::string &message, const std::string &help) {
    return Status(StatusCode::kUsage, "OPC0002", message).withHelp(help);
  };
  if (path == "-") return Status::ok();
  if (path.empty()) return error("the output's path is empty", "give a file, or - for standard output");
  std::error_code code;
  if (fs::is_directory(path, code)) return error("cannot write " + path + ": it is a directory", "name a file in it");
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty() && !fs::is_directory(parent, code))
    return error("cannot write " + path + ": there is no directory " + parent.string(),
                 "make it first: mkdir -p " + parent.string());
  if (inputPath != "-" && fs::equivalent(path, inputPath, code))
    return error("the output " + path + " is the input", "give another name with -o");
  return Status::ok();
}

std::string graphStem(const std::string &path) { return fs::path(path).stem().string(); }

std::string typeText(DataType type, const Shape &shape) {
  if (type == kInvalidDataType) return "?";
  std::string text = std::string(dataTypeName(type)) + "[";
  for (size_t i = 0; i < shape.dim_vec().size(); ++i)
    text += (i ? "," : "") + (shape.dim_vec()[i] < 0 ? "?" : std::to_string(shape.dim_vec()[i]));
  return text + "]";
}

bool hasOpenInputs(const GraphInfo &info) {
  return std::any_of(info.inputs.begin(), info.inputs.end(), [](const GraphTensor &t) {
    return t.dtype == kInvalidDataType || std::any_of(t.shape.begin(), t.shape.end(), [](int64_t d) { return d < 0; });
  });
}

} // namespace opc::cli
