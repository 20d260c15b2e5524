// opc run: a graph or plan with values in, values out, compared with what was expected.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "Devices.h"
#include "RunSteps.h"
#include "TrainingRun.h"

namespace opc::cli {

namespace {

class RunCommand final : public Command {
public:
  CommandSpec spec() override {
    CommandSpec s;
    s.arguments = "GRAPH|PLAN|-";
    s.summary = "execute a graph or plan; compare with expected values";
    s.examples = {"opc run mlp.pbtxt --fill rand --seed 7",
                  "opc run mlp.pbtxt --weights w.npz --input x=@x.npy --expect y=@y.npy",
                  "opc run mlp.plan --inputs in.npz --outputs out/",
                  "opc run relu.pbtxt --input 'x=f32[5]:-2,-1,0,1,2' --print all",
                  "opc run mlp.pbtxt --fill rand --until relu0 --print 8",
                  "opc run mlp.pbtxt --inputs in.npz --trap nan,inf",
                  "opc run mlp.pbtxt --fill rand --ranks 4"};
    s.options = options_.options();
    s.details =
        "An output passes when |got - expected| <= atol + rtol * |expected| for each value. Defaults (rtol, atol): f64 "
        "1e-7, 1e-9; "
        "f32 1.3e-6, 1e-5; f16 1e-3, 1e-3; bf16 1.6e-2, 1e-2; integers and bool 0, 0. A mismatch gives exit code 1.\n"
        "NAME is what stands before the first '='. A dimension that the graph gives as -1 takes its value from the "
        "tensor that is fed.\n"
        "--capture, --capture-stats and --trap see each tensor right after its op has run, in the plan that would run "
        "without them. What simplification removed or fusion joined is not there; --no-fuse and --no-simplify (which "
        "implies it) "
        "keep it.";
    s.minArguments = s.maxArguments = 1;
    s.executesKernels = s.isRankJob = true;
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    RankJob &ranks = options_.ranks;
    const auto &flags = invocation.flags();
    if (Status s = ranks.readFlags(flags.isDeviceGiven ? deviceCount(flags.device) : 1); !s) return invocation.fail(s);
    if (Status s = ranks.start(invocation, positional[0]); !s) return invocation.fail(s);
    return ranks.finish(invocation, runHere(invocation, positional[0]));
  }

private:
  int runHere(Invocation &invocation, const std::string &graph) {
    if (Status s = options_.check(invocation, graph); !s) return invocation.fail(s);
    RunContext context{invocation, options_};
    Outcome<int> code = options_.training.isRequested() ? train(context) : runOnce(context);
    return code ? *code : invocation.fail(code.status());
  }

  static Outcome<int> runOnce(RunContext &context) {
    Outcome<PlannedRun> planned = planRun(context);
    if (!planned) return planned.status();
    Outcome<GivenRun> given = giveValues(context, *planned);
    if (!given) return given.status();
    Outcome<ExecutedRun> executed = execute(context, *planned, *given);
    if (!executed) return executed.status();
    return report(context, *planned, *given, *executed);
  }

  RunOptions options_;
};

} // namespace

std::unique_ptr<Command> makeRunCommand() { return std::make_unique<RunCommand>(); }

} // namespace opc::cli
