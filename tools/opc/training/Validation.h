// Validation: a forward graph on data that training does not see, with the variables as they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BatchLoader.h"
#include "ScalarOutputs.h"

#include <memory>

namespace opc::cli {

class Validation {
public:
  /// The variables of the graph must be those that are trained: another one would stay as it was initialised. `what`
  /// names the graph in errors. Errors: OPC0005, OPC0704.
  static Status checkVariables(const std::string &what, const Session &session, const Session &trained);
  /// Over a session whose other inputs have their values. Errors: OPC0005 for a graph without outputs of one element.
  static Result<std::unique_ptr<Validation>> make(Session session, BatchLoader loader, const std::string &graph);
  /// "val.loss", ...
  std::vector<std::string> names() const;
  /// Adds the mean of each output over all batches. A call of the whole job.
  Status run(Session &trained, StepMetrics *metrics);

private:
  Validation(Session session, BatchLoader loader)
      : session_(std::move(session)), loader_(std::move(loader)), scalars_(session_) {}
  Session session_;
  BatchLoader loader_;
  ScalarOutputs scalars_;
};

} // namespace opc::cli
