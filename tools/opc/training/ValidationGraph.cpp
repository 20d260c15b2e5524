// --validate-graph and --validate, opened.
// SPDX-License-Identifier: Apache-2.0
#include "ValidationGraph.h"

#include "AllowTf32.h"
#include "DataSets.h"

#include <set>

namespace opc::cli {

Outcome<std::unique_ptr<Validation>> openValidation(RunContext &c, const Registry &registry, const Session &trained,
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
  for (const PortInfo &v : trained.interface().variables) trains.insert(v.name);
  for (const std::string &name : inputs.flagNames())
    if (trains.count(name)) inputs.drop(name);
  OPC_ASSIGN_OR_RETURN(const std::string plan, planner.planBatches(graph, inputs, data, {o.training.batch, batch}));
  const AllowTf32 products(o.allowTf32);
  OPC_ASSIGN_OR_RETURN(Session session, Session::load(plan, registry, o.session(c.invocation, false)));
  OPC_RETURN_IF_ERROR(Validation::checkVariables("--validate-graph " + graph.name, session, trained));
  OPC_ASSIGN_OR_RETURN(std::vector<BatchLoader::Source> sources,
                       openDataSets(data, session, "--validate", o.values.cast));
  std::set<std::string> given;
  for (const DataSet &d : data) given.insert(d.input);
  for (const PortInfo &v : session.interface().variables) given.insert(v.name);
  ValueFlags flags = o.values;
  flags.weights.clear(); // of the graph that trains, as is what they may lack
  flags.partialWeights = false;
  OPC_RETURN_IF_ERROR(giveValues(session, inputs, flags, c.invocation.commandLine(), given).status());
  OPC_ASSIGN_OR_RETURN(BatchLoader loader, BatchLoader::create(session, std::move(sources), false, 0));
  if (const int64_t rest = loader.order().leftOver())
    c.invocation.note("note: " + std::to_string(rest) + " of " + std::to_string(loader.order().examples()) +
                      " examples do not fill a batch and are left out of validation");
  OPC_ASSIGN_OR_RETURN(std::unique_ptr<Validation> made,
                       Validation::make(std::move(session), std::move(loader), graph.name));
  return made;
}

} // namespace opc::cli
