// The graph or plan that a command was given.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Failure.h"
#include "Pipeline.h"

#include <string>
#include <vector>

namespace opc::cli {

struct GraphInput {
  std::string path;  // as given; empty for a file of a revision, which no manifest or lock lies beside
  std::string name;  // what diagnostics call it: the path, or "<stdin>"
  SharedBytes bytes; // of a model, where its file has them
  bool isPlan = false;
  bool isIr = false;                     // MLIR, which a pipeline goes on from
  bool isModel = false;                  // of another system: its ops follow from the sizes of its inputs
  decltype(ModelRequest::beside) beside; // of a model of a revision: the files in its folder there
};

/// What the names of graphs end with.
inline constexpr const char *kGraphEndings[] = {".pbtxt", ".prototxt", ".pb", ".onnx"};

/// Whether what a file holds is the manifest of operators in Python that a graph has ("g.ops.pbtxt").
bool holdsManifest(const std::string &path);
/// The graph that a file has the name of a manifest beside: "g.pbtxt" for "g.ops.pbtxt"; "" when there is none.
std::string graphOfManifest(const std::string &path);

/// Reads a file, or standard input for "-". Errors: OPC0706; OPC0103 for a manifest.
Result<GraphInput> readGraphInput(const std::string &path);

/// The same, or a file of a revision for "git:REV:PATH" (GitFiles.h): nothing that lies beside it is looked at, but
/// what a model names for its tensors.
Result<GraphInput> readGraphOrRevision(const std::string &path);

/// Begins a compilation with its bytes, which it takes: import(), or resume() of IR after whatever phase.
bool begin(Pipeline *pipeline, GraphInput &input);

/// Errors: OPC0207, a model whose inputs leave sizes open: its facts are the inputs alone.
Status checkBound(const GraphInput &input, const GraphFacts &facts);

/// What a compilation that has failed found.
Failure failureOf(const Pipeline &pipeline);

/// The file name without directories and extension: "mlp" of "nets/mlp.pbtxt".
std::string graphStem(const std::string &path);

} // namespace opc::cli
