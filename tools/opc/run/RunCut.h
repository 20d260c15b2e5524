// --until, --feed, --only, --output: which part of a graph runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FileUse.h"
#include "Invocation.h"
#include "NamedValues.h"
#include "Pipeline.h"

#include <string>
#include <vector>

namespace opc::cli {

/// --until of `opc compile` and `opc show`, which cut as `opc run` does.
Option untilOption(std::vector<std::string> *to);
/// The cut that has these tensors as its only outputs. Errors: OPC0001, OPC0005.
Result<GraphCut> cutAt(const std::vector<std::string> &tensors, const GraphFacts &info);

/// The cut that keeps the outputs of these names, and all when one of them does not exist, which others report.
GraphCut cutToOutputs(const std::vector<std::string> &names, const GraphFacts &info);

class CutFlags {
public:
  std::vector<Option> options();
  /// The texts of --until.
  const std::vector<std::string> &until() const { return until_; }
  bool keepsParts() const { return !only_.empty(); }
  bool any() const { return !until_.empty() || !feeds_.empty() || !only_.empty(); }
  void addFiles(FileUse *files) const { files->readsValues(feeds_, "--feed", "", ""); }
  /// Parses the specifications of --feed, before anything is compiled.
  Status open();
  /// The cut of this graph, which has been imported; names that it does not have are OPC0005. The values of --feed join
  /// `inputs` under the names that their tensors have as inputs.
  Result<GraphCut> resolve(const GraphFacts &info, NamedValues *inputs);

private:
  std::vector<std::string> until_, feeds_, only_;
  NamedValues feedValues_;
};

/// Takes the --input values out that a cut graph does not want; names that neither graph has stay, for the error.
void dropUnneeded(const GraphFacts &whole, const GraphFacts &cut, NamedValues *inputs, std::vector<std::string> *notes);
/// The same for those of --feed, once the graph has been cut there.
void dropUnneededFeeds(const GraphFacts &cut, NamedValues *inputs, std::vector<std::string> *notes);

} // namespace opc::cli
