// The graph or plan that a command was given.
// SPDX-License-Identifier: Apache-2.0
#include "GraphInput.h"

#include "CrashRecord.h"
#include "FileBytes.h"
#include "GitFiles.h"

#include <filesystem>

namespace opc::cli {

namespace fs = std::filesystem;

Result<GraphInput> readGraphInput(const std::string &path) {
  if (path.empty())
    return Status(StatusCode::kUsage, "OPC0706", "the graph's path is empty")
        .withHelp("give a file, or - for standard input");
  OPC_ASSIGN_OR_RETURN(FileBytes file, FileBytes::open(path));
  GraphInput input;
  input.path = path;
  input.name = path == "-" ? "<stdin>" : path;
  input.bytes = std::string(file.view());
  input.isPlan = looksLikePlan(input.bytes);
  noteGraph(path, input.bytes);
  return input;
}

Result<GraphInput> readGraphOrRevision(const std::string &path) {
  const auto object = gitObjectOf(path);
  if (!object) return readGraphInput(path);
  GraphInput input;
  OPC_ASSIGN_OR_RETURN(input.bytes, readGitFile(*object));
  input.name = path;
  input.isPlan = looksLikePlan(input.bytes);
  noteGraph(path, input.bytes);
  return input;
}

Failure failureOf(const Pipeline &pipeline) {
  return Failure(pipeline.diagnostics(), pipeline.errorCount(), pipeline.errorClass(), pipeline.source());
}

std::string graphStem(const std::string &path) { return fs::path(path).stem().string(); }

} // namespace opc::cli
