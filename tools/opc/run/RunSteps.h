// One run in four steps: plan, give values, execute, report. Each reads what it was asked for and what the steps before
// it made, and nothing else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Failure.h"
#include "GraphInput.h"
#include "Invocation.h"
#include "RunOptions.h"
#include "RunPage.h"
#include "RunPlan.h"
#include "RunProfile.h"
#include "RunReference.h"
#include "RunTrace.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

/// What the steps share.
struct RunContext {
  Invocation &invocation;
  RunOptions &options;
  RunTrace trace = {};
  RunTimeline timeline = {};
  RunProfile profile = {};
  std::vector<std::string> notes = {}; // for people, in the order of the steps
  FileUse files = {};

  bool isTraced() const { return !options.trace.empty(); }
};

/// A graph that is ready to take values.
struct PlannedRun {
  GraphInput input;                   // its bytes only for a reference
  std::unique_ptr<Registry> registry; // the session refers to it
  std::unique_ptr<RunPlanner> planner;
  NamedValues inputs;
  std::optional<Session> session;
  std::string plan; // its bytes, where something reads them again (RunOptions::keepsGraph)
  GraphFacts facts; // for a report
};
/// Reads and compiles the graph, loads the plan.
Outcome<PlannedRun> planRun(RunContext &context);

/// What went in, where outputs go, and what is expected of them.
struct GivenRun {
  ValueReport values;
  OutputFiles files;
  std::vector<Expectation> expectations;
};
Outcome<GivenRun> giveValues(RunContext &context, PlannedRun &planned);

struct ExecutedRun {
  std::vector<double> seconds; // one a measured run, sorted
  int signal = 0;              // that ended the runs before the last
  std::vector<NamedOutput> outputs;
  ReferenceRun reference;
};
/// Runs, runs the reference, writes files. The expectations get the reference's outputs.
Outcome<ExecutedRun> execute(RunContext &context, PlannedRun &planned, GivenRun &given);

/// Compares and prints; the exit code, which says whether all is as expected.
Outcome<int> report(RunContext &context, PlannedRun &planned, const GivenRun &given, ExecutedRun &executed);

} // namespace opc::cli
