// Validation: a forward graph on data that training does not see.
// SPDX-License-Identifier: Apache-2.0
#include "Validation.h"

#include "DataSets.h"
#include "TextParts.h"

#include <algorithm>
#include <set>

namespace opc::cli {

namespace {

const std::string kPrefix = "val.";

/// The variables of the graph must be those that are trained: another one would stay as it was initialised.
Status checkVariables(const std::string &graph, const Session &session, const Session &trained) {
  const auto &known = trained.interface().variables;
  for (const VariableInfo &v : session.interface().variables) {
    const auto it = std::find_if(known.begin(), known.end(), [&](const VariableInfo &k) { return k.name == v.name; });
    if (it == known.end()) return noSuchName("variable", v.name, namesOf(known), "--validate-graph " + graph);
    if (it->desc != v.desc)
      return Status(StatusCode::kUsage, "OPC0704",
                    "variable '" + v.name + "' is " + it->desc.toString() + " where it is trained, and " +
                        v.desc.toString() + " in " + graph);
  }
  return Status::ok();
}

} // namespace

Outcome<std::unique_ptr<Validation>> Validation::open(RunContext &c, const Registry &registry, const Session &trained,
                                                      int64_t batch) {
  RunOptions &o = c.options;
  const std::vector<DataSet> &data = o.training.validation;
  OPC_ASSIGN_OR_RETURN(NamedValues inputs, o.values.open());
  OPC_ASSIGN_OR_RETURN(GraphInput graph, readGraphInput(o.training.validationGraph));
  RunPlanner planner(c.invocation, o, registry, nullptr);
  planner.planForwardAlone();
  // Values of --input are for the graph that trains, too.
  std::set<std::string> trains;
  for (const PortInfo &p : trained.interface().inputs) trains.insert(p.name);
  for (const VariableInfo &v : trained.interface().variables) trains.insert(v.name);
  for (const std::string &name : inputs.flagNames())
    if (trains.count(name)) inputs.drop(name);
  OPC_ASSIGN_OR_RETURN(const std::string plan, planner.planBatches(graph, inputs, data, {o.training.batch, batch}));
  OPC_ASSIGN_OR_RETURN(Session session, Session::load(plan, registry, o.session(c.invocation, false)));
  OPC_RETURN_IF_ERROR(checkVariables(graph.name, session, trained));
  OPC_ASSIGN_OR_RETURN(std::vector<BatchLoader::Source> sources,
                       openDataSets(data, session, "--validate", o.values.cast));
  std::set<std::string> given;
  for (const DataSet &d : data) given.insert(d.input);
  for (const VariableInfo &v : session.interface().variables) given.insert(v.name);
  ValueFlags flags = o.values;
  flags.weights.clear();
  OPC_RETURN_IF_ERROR(giveValues(session, inputs, flags, c.invocation.commandLine(), given).status());
  OPC_ASSIGN_OR_RETURN(BatchLoader loader, BatchLoader::create(session, std::move(sources), false, 0));
  if (const int64_t rest = loader.order().leftOver())
    c.invocation.note("note: " + std::to_string(rest) + " of " + std::to_string(loader.order().examples()) +
                      " examples do not fill a batch and are left out of validation");
  std::unique_ptr<Validation> made(new Validation(std::move(session), std::move(loader)));
  if (made->scalars_.names().empty())
    return Status(StatusCode::kUsage, "OPC0005", graph.name + " has no output of one element to validate")
        .withHelp("give it one: a mean loss, a share of right answers");
  return made;
}

std::vector<std::string> Validation::names() const {
  std::vector<std::string> names = scalars_.names();
  for (std::string &name : names) name = kPrefix + name;
  return names;
}

Status Validation::run(Session &trained, StepMetrics *metrics) {
  for (const VariableInfo &v : session_.interface().variables) {
    OPC_ASSIGN_OR_RETURN(const HostTensor value, trained.variable(v.name));
    OPC_RETURN_IF_ERROR(session_.setVariable(v.name, value));
  }
  OPC_RETURN_IF_ERROR(session_.setStep(0)); // what is drawn at random is drawn alike in every validation
  const int64_t batches = loader_.order().stepsPerEpoch();
  std::vector<double> sums;
  for (int64_t b = 0; b < batches; ++b) {
    OPC_RETURN_IF_ERROR(loader_.feed(session_, b));
    if (Status s = session_.run(); !s) return std::move(s).withContext("validating");
    const auto values = scalars_.read(session_);
    sums.resize(values.size());
    for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i].second;
  }
  const std::vector<std::string> all = names();
  for (size_t i = 0; i < sums.size(); ++i) metrics->values.push_back({all[i], sums[i] / static_cast<double>(batches)});
  return Status::ok();
}

} // namespace opc::cli
