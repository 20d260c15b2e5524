// opc run: a graph or plan with values in, values out, compared with what was expected.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "Devices.h"
#include "NumberText.h"
#include "PlanFile.h"
#include "RankDevices.h"
#include "RunSteps.h"
#include "TrainingRun.h"

#include <fstream>

namespace opc::cli {

namespace {

struct RunCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("execute a graph or plan; compare with expected values", "GRAPH|PLAN|-", 1, 1);
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
    s.executesKernels = s.isRankJob = true;
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    RankJob &ranks = options_.ranks;
    if (Status s = ranks.readFlags(devicesOf(invocation, positional[0])); !s) return invocation.fail(s);
    const bool isPatient = options_.training.isRequested() || options_.runs() > 1;
    const Result<std::optional<int>> launched = ranks.start(invocation, positional[0], isPatient);
    if (!launched) return invocation.fail(launched.status());
    if (*launched) return **launched;
    return ranks.finish(invocation, behind(invocation, runHere(invocation, positional[0])));
  }

private:
  /// How many devices the command names. A setting says nothing of a plan, which has its own.
  static int64_t devicesOf(const Invocation &invocation, const std::string &path) {
    const int64_t count = deviceCount(invocation.flags().device);
    if (invocation.flags().isDeviceGiven || count == 1) return count;
    std::string start(kPlanStart, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(start.data(), static_cast<std::streamsize>(start.size()));
    start.resize(static_cast<size_t>(file.gcount()));
    return looksLikePlan(start) ? 1 : count;
  }
  /// What a run has left behind in streams of its plugins is done when its session ends, when nobody waits.
  static int behind(Invocation &invocation, int code) {
    if (code != kExitOk) return code;
    const size_t errors = simulatorErrors();
    if (errors == 0) return code;
    return invocation.fail(Status(StatusCode::kExecution, "OPC0631",
                                  "the simulator has found " + countText(errors, "error") +
                                      " behind the last wait of the run, as said above")
                               .withHelp("work that a kernel puts into a stream of its own has to be waited for by the "
                                         "stream that it was given"));
  }
  static constexpr size_t kPlanStart = 16; // bytes that tell a plan from a graph

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
