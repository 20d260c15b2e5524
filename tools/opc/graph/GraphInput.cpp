// The graph or plan that a command was given.
// SPDX-License-Identifier: Apache-2.0
#include "GraphInput.h"

#include "CrashRecord.h"
#include "FileBytes.h"
#include "GitFiles.h"
#include "GraphValues.h"
#include "ModelSource.h"
#include "NumberText.h"
#include "OpManifest.h"
#include "PrintableText.h"
#include "TextParts.h"

#include <algorithm>
#include <filesystem>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

using python::kManifestEnding;

bool isNamedAsManifest(std::string_view path) {
  return path.size() > kManifestEnding.size() && path.ends_with(kManifestEnding);
}

bool isManifestText(const std::string &path, std::string_view bytes) {
  return isNamedAsManifest(path) && python::manifestOps(std::string(bytes), path);
}

Status manifestForGraph(const std::string &path) {
  const std::string graph = graphOfManifest(path);
  return Status(StatusCode::kInvalidGraph, "OPC0103",
                "not a graph: " + printableName(path) + " is the manifest of a graph's operators in Python")
      .withHelp(graph.empty() ? "give the graph that it belongs to: what it is called without .ops"
                              : "give the graph: " + printableName(graph));
}

constexpr size_t kLargePlan = 1 << 20;

void recognize(GraphInput *input) {
  input->isPlan = looksLikePlan(input->bytes);
  input->isIr = !input->isPlan && looksLikeIr(input->bytes);
  input->isModel = !input->isPlan && !input->isIr && looksLikeModel(input->bytes);
}

} // namespace

bool holdsManifest(const std::string &path) {
  if (!isNamedAsManifest(path)) return false;
  const Result<FileBytes> file = FileBytes::open(path);
  return file && isManifestText(path, file->view());
}

std::string graphOfManifest(const std::string &path) {
  if (!isNamedAsManifest(path)) return "";
  std::error_code error;
  const std::string stem = path.substr(0, path.size() - kManifestEnding.size());
  for (const char *ending : kGraphEndings)
    if (fs::is_regular_file(stem + ending, error)) return stem + ending;
  return "";
}

Result<GraphInput> readGraphInput(const std::string &path) {
  if (path.empty())
    return Status(StatusCode::kUsage, "OPC0706", "the graph's path is empty")
        .withHelp("give a file, or - for standard input");
  OPC_ASSIGN_OR_RETURN(FileBytes opened, FileBytes::open(path));
  if (isManifestText(path, opened.view())) return manifestForGraph(path);
  const auto file = std::make_shared<const FileBytes>(std::move(opened));
  GraphInput input;
  input.path = path;
  input.name = path == "-" ? "<stdin>" : path;
  input.bytes = SharedBytes(file->view(), file, file->isMapped());
  recognize(&input);
  // Only weights are worth that the file must stay as it is.
  if (!input.isModel && !(input.isPlan && input.bytes.size() >= kLargePlan)) input.bytes = input.bytes.text();
  noteGraph(path, input.bytes);
  return input;
}

Result<GraphInput> readGraphOrRevision(const std::string &path) {
  const auto object = gitObjectOf(path);
  if (!object) return readGraphInput(path);
  GraphInput input;
  OPC_ASSIGN_OR_RETURN(std::string bytes, readGitFile(*object));
  input.bytes = std::move(bytes);
  input.name = path;
  recognize(&input);
  if (input.isModel) input.beside = gitFilesBeside(*object);
  noteGraph(path, input.bytes);
  return input;
}

bool begin(Pipeline *pipeline, GraphInput &input) {
  return input.isIr ? pipeline->resume(input.name, input.bytes.take(), std::nullopt)
                    : pipeline->import(input.name, std::move(input.bytes));
}

Status checkBound(const GraphInput &input, const GraphFacts &facts) {
  if (!input.isModel || !hasOpenInputs(facts)) return Status::ok();
  std::string shapes, open;
  size_t found = 0;
  constexpr size_t kMostShown = 100;
  for (const GraphTensor &t : facts.inputs) {
    const DimVector &dims = t.shape.dim_vec();
    if (std::none_of(dims.begin(), dims.end(), [](int64_t d) { return d < 0; })) continue;
    if (++found > kMostShown) continue;
    open += concat(open.empty() ? "" : ", ", printableName(t.name), " ", typeText(t.dtype, t.shape));
    shapes += concat(" --shape ", printableName(t.name), "=");
    for (size_t i = 0; i < dims.size(); ++i) shapes += concat(i ? "," : "", dims[i] < 0 ? 1 : dims[i]);
  }
  if (found > kMostShown) open += concat(" and ", found - kMostShown, " more"), shapes += " ...";
  return Status(StatusCode::kInvalidGraph, "OPC0207",
                concat(printableName(input.name), ": the inputs of the model leave sizes open (", open,
                       "), and its ops follow from them"))
      .withHelp(concat("give them, where the command takes them:", shapes,
                       ", or --dim NAME=N for sizes with names; or compile the model first: opc compile ",
                       printableName(input.name), shapes, " -o model.plan"));
}

Failure failureOf(const Pipeline &pipeline) {
  return Failure(pipeline.diagnostics(), pipeline.errorCount(), pipeline.errorClass(), pipeline.source());
}

std::string graphStem(const std::string &path) { return fs::path(path).stem().string(); }

} // namespace opc::cli
