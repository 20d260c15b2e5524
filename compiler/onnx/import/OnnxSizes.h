// One graph for every size of a range: what a model becomes at several sizes, held against one another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxDraft.h"
#include "OnnxImport.h"
#include "OnnxParsedModel.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opc::onnx {

using NamedTerms = std::vector<std::pair<std::string, Term>>;

/// What a model becomes at fixed sizes.
struct ImportedModel {
  GraphDraft draft;
  NamedTerms outputs;
  std::map<std::string, user_op::TensorDesc> inputs;
  std::vector<std::string> decided; // inputs that have become constants
  bool isUnbound;                   // a size is open: there are inputs alone
};

/// Null on error.
std::optional<ImportedModel> importOnce(const ParsedModel &model, const Registry &registry,
                                        const ImportRequest &request, std::vector<Diagnostic> *diagnostics);

/// As a graph file; where sizes have ranges, for all of them. Null on error.
std::unique_ptr<GraphFile> importedForSizes(const ParsedModel &model, const Registry &registry,
                                            const ImportRequest &request, std::vector<Diagnostic> *diagnostics);

/// What a model becomes at some sizes.
struct SizedModel {
  const GraphDraft *draft;
  const NamedTerms *outputs;
  std::string sizes; // "n = 7, m = 3", for messages
};

/// What cannot be said for all sizes, and at which node.
struct SizesRefusal {
  std::string place, message;
  /// Ops may be others at a size that something else has by chance, and attributes where a size is 1, and compute the
  /// same; numbers may not.
  enum class In { kOps, kAttributes, kNumbers } in = In::kOps;
};

/// Copies `a` into the empty draft `to`, with everything in which `b` differs said without a number: -1 in a reshape,
/// the end of an axis in a slice, rows that are repeated as often as another tensor has them. Returns the outputs.
/// Throws SizesRefusal where they differ in more.
NamedTerms mergeSizes(GraphDraft *to, const SizedModel &a, const SizedModel &b);

} // namespace opc::onnx
