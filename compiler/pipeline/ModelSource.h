// A model of another system (ONNX) before it is a graph: what its import needs to know, and the weights in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"
#include "GraphFacts.h"
#include "GraphsInOps.h"
#include "ModelRequest.h"
#include "Registry.h"
#include "SharedBytes.h"
#include "StoredTensor.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opc {

/// True when the bytes are a model, which is made a graph when its shapes are known.
bool looksLikeModel(std::string_view bytes);

struct CompileOptions;
struct GraphFile;

struct ModelSource {
  ModelSource();
  ModelSource(ModelSource &&) noexcept;
  ModelSource &operator=(ModelSource &&) noexcept;
  ~ModelSource();
  /// An input leaves a dimension open that nothing binds: `inputs` has them, and the rest is not known.
  bool isUnbound = false;
  std::vector<GraphTensor> inputs;
  std::map<std::string, StoredTensor> values; // of the graph's variables
  std::vector<std::string> decided;           // inputs that must be constants of the graph
  std::vector<Diagnostic> warnings;
  std::unique_ptr<GraphFile> file; // the graph: Pipeline::import()
};
/// Nothing for a model that cannot be imported: Pipeline::import() says why.
std::optional<ModelSource> readModel(const std::string &name, const SharedBytes &bytes, const Registry &registry,
                                     const std::map<std::string, std::vector<int64_t>> &shapes,
                                     const ModelRequest &request, GraphsInOps graphs = GraphsInOps::kAll);

/// Which graphs in ops a compilation with these options may have.
GraphsInOps graphsInOps(const CompileOptions &options);

/// The model in which an input has a value: an initializer of its name.
std::string withInitializer(std::string_view model, const std::string &input, const user_op::TensorDesc &desc,
                            const std::string &bytes);

} // namespace opc
