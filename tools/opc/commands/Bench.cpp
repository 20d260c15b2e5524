// opc bench: how long a graph takes, and whether that is longer than before.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "GraphBench.h"

namespace opc::cli {

namespace {

struct BenchCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("measure a graph, and find out whether it is slower than another one", "GRAPH|PLAN", 1, 1);
    s.examples = {"opc bench mlp.pbtxt --fill rand",
                  "opc bench mlp.pbtxt --fill rand --baseline git:main:mlp.pbtxt --tolerance 0.03",
                  "opc bench mlp.pbtxt --fill rand --save before.json"};
    s.options = options_.options();
    s.details =
        "The graph and the baseline run in turn, in one process, and each round gives a ratio of their times. Exit "
        "code 1 when the median of the ratios lies above 1 + X with a confidence of 95 %. Times of a file were taken "
        "at another hour: the interval then says nothing of how the machine has changed since.";
    s.executesKernels = true;
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    OPC_RETURN_IF_ERROR(options_.check(invocation, positional[0]));
    return benchGraph(invocation, options_);
  }

private:
  BenchOptions options_;
};

} // namespace

std::unique_ptr<Command> makeBenchCommand() { return std::make_unique<BenchCommand>(); }

} // namespace opc::cli
