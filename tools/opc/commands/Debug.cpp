// opc debug: find where a run goes wrong.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "FirstDifference.h"

namespace opc::cli {

namespace {

class DebugCommand final : public Command {
public:
  CommandSpec spec() override {
    CommandSpec s;
    s.arguments = "first-diff GRAPH|PLAN";
    s.summary = "find the first op whose result another way of running the same graph does not give";
    s.examples = {"opc debug first-diff mlp.pbtxt --fill rand",
                  "opc debug first-diff mlp.pbtxt --inputs in.npz --weights w.npz --reference f64",
                  "opc debug first-diff mlp.pbtxt --inputs in.npz --weights w.npz --reference captured/",
                  "opc debug first-diff mlp.pbtxt --fill rand --mesh 4"};
    s.options = first_.options();
    s.details =
        "Both runs get the same values. Each op of the run is given the reference's inputs, so that the op that is "
        "named is the one that is wrong; with --chain, errors go on from op to op, as they do in a run. Exit code 1 "
        "when a tensor differs.";
    s.minArguments = s.maxArguments = 2;
    s.executesKernels = true;
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    if (positional[0] != "first-diff")
      return usageError("opc debug does not know '" + positional[0] + "'", "opc debug first-diff GRAPH");
    OPC_RETURN_IF_ERROR(first_.check(invocation, positional[1]));
    return findFirstDifference(invocation, first_);
  }

private:
  FirstDifferenceOptions first_;
};

} // namespace

std::unique_ptr<Command> makeDebugCommand() { return std::make_unique<DebugCommand>(); }

} // namespace opc::cli
