// Validation: a forward graph on data that training does not see, with the variables as they are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BatchLoader.h"
#include "RunSteps.h"
#include "ScalarOutputs.h"

#include <memory>

namespace opc::cli {

class Validation {
public:
  /// Compiles --validate-graph for --validate's data. Its variables are those of the session that trains; batches are
  /// of `batch` examples where the graph leaves that open. On several ranks each computes all of it. Errors: those of
  /// compiling and of data sets; OPC0005 for a variable that is not trained, and for a graph without such outputs.
  static Outcome<std::unique_ptr<Validation>> open(RunContext &context, const Registry &registry,
                                                   const Session &trained, int64_t batch);
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
