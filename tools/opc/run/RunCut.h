// --until, --feed, --only: which part of a graph runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Invocation.h"
#include "NamedValues.h"
#include "Pipeline.h"

#include <string>
#include <vector>

namespace opc::cli {

class CutFlags {
public:
  std::vector<Option> options();
  bool any() const { return !until_.empty() || !feeds_.empty() || !only_.empty(); }
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

} // namespace opc::cli
