// opc debug: find where a run goes wrong.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "CommandWords.h"
#include "CrashReplay.h"
#include "FirstDifference.h"
#include "GraphReduction.h"
#include "OptionsOf.h"
#include "TextParts.h"

#include <algorithm>

namespace opc::cli {

namespace {

constexpr char kAnyFile[] = "--any-file";

struct DebugCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s =
        specOf("find the op at which two runs of a graph part; make a failing graph smaller; repeat a crash",
               "first-diff|reduce|replay GRAPH|PLAN|BUNDLE", 2, 2);
    s.examples = {"opc debug first-diff mlp.pbtxt --fill rand",
                  "opc debug first-diff mlp.pbtxt --inputs in.npz --weights w.npz --reference f64",
                  "opc debug first-diff mlp.pbtxt --inputs in.npz --weights w.npz --reference captured/",
                  "opc debug first-diff mlp.pbtxt --fill rand --mesh 4",
                  "opc debug first-diff mlp.pbtxt --fill rand --device sim",
                  "opc debug reduce net.pbtxt --check 'opc run {} --fill rand --trap nan' -o small.pbtxt",
                  "opc debug replay opc-crash-0123456789ab",
                  "opc debug reduce opc-crash-0123456789ab -o small.pbtxt"};
    s.options = first_.options();
    for (Option &option : reduction_.options()) s.options.push_back(std::move(option));
    s.options.push_back({kAnyFile, 0, "",
                         "for replay, and reduce of a bundle: its command may read files outside of this folder",
                         &anyFile_});
    s.details =
        "first-diff: both runs get the same values. Each op of the run is given the reference's inputs, so that the op that is "
        "named is the one that is wrong; with --chain, errors go on from op to op, as they do in a run. Exit code 1 "
        "when a tensor differs. With --device gpu or sim the graph runs there, and the plain run on the CPU.\n"
        "reduce: leaves ops away as long as the command fails with the same exit code or signal and the same first "
        "error[CODE]; what the ops that remain read becomes an input. FILE has the smallest graph so far at any time. "
        "A crash bundle in place of GRAPH has both the graph and what fails.\n"
        "replay: runs the command of a crash bundle, or of a file of opc compile --reproducer, once more. What it writes "
        "goes to a folder that is removed; its plugins are not loaded, those of --plugin are. Exit code 0: the same "
        "failure, 1: another one or none.";
    s.executesKernels = true;
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    const std::string &word = positional[0], &graph = positional[1];
    if (word != "first-diff" && invocation.flags().isDeviceGiven)
      OPC_RETURN_IF_ERROR(invocation.requireCpu("opc debug " + word));
    if (word == "reduce") {
      OPC_RETURN_IF_ERROR(refuse(invocation, word, first_.options()));
      return reduce(invocation, graph);
    }
    if (word == "replay") {
      OPC_RETURN_IF_ERROR(refuse(invocation, word, first_.options()));
      if (!reduction_.command.empty() || !reduction_.output.empty())
        return usageError("--check and -o have no meaning for opc debug replay", "opc debug reduce takes bundles, too");
      return replayCrash(invocation, {anyFile_, reduction_.timeout}, graph);
    }
    if (word != "first-diff")
      return usageError("opc debug does not know '" + word + "'",
                        "opc debug first-diff GRAPH, opc debug reduce GRAPH, opc debug replay BUNDLE");
    OPC_RETURN_IF_ERROR(refuse(invocation, word, reduction_.options()));
    if (anyFile_) return usageError(concat(kAnyFile, " has no meaning for opc debug ", word));
    OPC_RETURN_IF_ERROR(first_.check(invocation, graph));
    return findFirstDifference(invocation, first_);
  }

private:
  Outcome<int> reduce(Invocation &invocation, const std::string &graph) {
    CrashReplay replay(invocation, {anyFile_, reduction_.timeout});
    if (!reduction_.command.empty() || !looksLikeBundle(graph)) {
      if (anyFile_)
        return usageError(concat(kAnyFile, " is for the command of a bundle, and ",
                                 reduction_.command.empty() ? graph + " is none" : "--check gives another one"),
                          concat("leave ", kAnyFile, " out"));
      OPC_RETURN_IF_ERROR(reduction_.check(graph));
      return reduceGraph(invocation, reduction_, graph);
    }
    OPC_RETURN_IF_ERROR(replay.open(graph));
    reduction_.replay = &replay;
    OPC_RETURN_IF_ERROR(reduction_.check(replay.graph()));
    return reduceGraph(invocation, reduction_, replay.graph());
  }

  /// The options of the other one.
  static Status refuse(const Invocation &invocation, const std::string &word, const std::vector<Option> &options) {
    const std::vector<Option> all = optionsOf(invocation.commandLine());
    for (const Word &given : wordsOf(all, invocation.commandLine()))
      for (const Option *option : given.options)
        if (std::any_of(options.begin(), options.end(), [&](const Option &o) { return o.shown() == option->shown(); }))
          return usageError(option->shown() + " has no meaning for opc debug " + word);
    return Status::ok();
  }

  FirstDifferenceOptions first_;
  ReductionOptions reduction_;
  bool anyFile_ = false;
};

} // namespace

std::unique_ptr<Command> makeDebugCommand() { return std::make_unique<DebugCommand>(); }

} // namespace opc::cli
