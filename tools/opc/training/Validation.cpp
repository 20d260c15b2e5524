// Validation: means over batches that training does not see.
// SPDX-License-Identifier: Apache-2.0
#include "Validation.h"

#include "NamedValues.h"
#include "TextParts.h"

#include <algorithm>

namespace opc::cli {

namespace {
const std::string kPrefix = "val.";
}

Status Validation::checkVariables(const std::string &what, const Session &session, const Session &trained) {
  const auto &known = trained.interface().variables;
  for (const PortInfo &v : session.interface().variables) {
    const auto it = std::find_if(known.begin(), known.end(), [&](const PortInfo &k) { return k.name == v.name; });
    if (it == known.end()) return noSuchName("variable", v.name, namesOf(known), what);
    if (it->desc != v.desc)
      return Status(StatusCode::kUsage, "OPC0704",
                    "variable '" + v.name + "' is " + it->desc.toString() + " where it is trained, and " +
                        v.desc.toString() + " in " + what);
  }
  return Status::ok();
}

Result<std::unique_ptr<Validation>> Validation::make(Session session, BatchLoader loader, const std::string &graph) {
  std::unique_ptr<Validation> made(new Validation(std::move(session), std::move(loader)));
  if (made->scalars_.names().empty())
    return Status(StatusCode::kUsage, "OPC0005", graph + " has no output of one element to validate")
        .withHelp("give it one: a mean loss, a share of right answers");
  return made;
}

std::vector<std::string> Validation::names() const {
  std::vector<std::string> names = scalars_.names();
  for (std::string &name : names) name = kPrefix + name;
  return names;
}

Status Validation::run(Session &trained, StepMetrics *metrics) {
  for (const PortInfo &v : session_.interface().variables) {
    OPC_ASSIGN_OR_RETURN(const HostTensor value, trained.variable(v.name));
    OPC_RETURN_IF_ERROR(session_.setVariable(v.name, value));
  }
  OPC_RETURN_IF_ERROR(session_.setStep(0)); // what is drawn at random is drawn alike in every validation
  const int64_t batches = loader_.order().stepsPerEpoch();
  std::vector<double> sums;
  for (int64_t b = 0; b < batches; ++b) {
    OPC_RETURN_IF_ERROR(loader_.feed(session_, b));
    if (Status s = session_.run(); !s) return std::move(s).withContext("validating");
    OPC_ASSIGN_OR_RETURN(const auto values, scalars_.read(session_));
    sums.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i].second;
  }
  const std::vector<std::string> all = names();
  for (size_t i = 0; i < sums.size(); ++i) metrics->values.push_back({all[i], sums[i] / static_cast<double>(batches)});
  return Status::ok();
}

} // namespace opc::cli
