// --reference cpu: a second, plain run of the same graph, and where the two differ first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Expectations.h"
#include "Invocation.h"
#include "ModelValues.h"
#include "Session.h"
#include "ValueGiver.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

class ReferenceRun {
public:
  /// Runs `plan` `steps` times with the values that the first run had, and expects its outputs.
  Status run(Invocation &invocation, const std::string &plan, const Registry &registry, const SessionOptions &options,
             const NamedValues &inputs, const ValueFlags &values, const ModelValues &own, int64_t steps,
             std::vector<Expectation> *expectations);

  /// Runs both once more and compares what is inside, as far as both have it: a sentence on the first tensor that
  /// differs by more than its tolerance. Empty when there is none, and for graphs that update variables, which cannot
  /// be run again.
  Result<std::string> firstDifference(Session &session, const ExpectFlags &expect);

private:
  std::optional<Session> session_;
};

} // namespace opc::cli
