// opc debug reduce: a small graph for which a command fails as it does for a large one.
// SPDX-License-Identifier: Apache-2.0
#include "GraphReduction.h"

#include "FileBytes.h"
#include "FileUse.h"
#include "GraphInput.h"
#include "GraphOutput.h"
#include "JsonOutput.h"
#include "NumberText.h"
#include "OutputFiles.h"
#include "Pipeline.h"
#include "StopSignal.h"

#include <algorithm>
#include <filesystem>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

/// The path as one word of a shell.
std::string quoted(const std::string &path) {
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

class Reduction {
public:
  Reduction(Invocation &invocation, const ReductionOptions &options) : invocation_(invocation), options_(options) {}

  Outcome<int> run(const std::string &path) {
    path_ = path;
    OPC_ASSIGN_OR_RETURN(GraphInput input, readGraphInput(path));
    if (input.isPlan)
      return usageError("reduce makes graphs smaller, and " + input.name + " is a plan", "give the graph itself");
    name_ = std::move(input.name);
    bytes_ = std::move(input.bytes);
    OPC_ASSIGN_OR_RETURN(registry_, invocation_.loadRegistry(path));
    // Ctrl-C keeps what has been found so far.
    const StopSignal stop;
    Pipeline whole(registry_, {});
    if (!whole.import(name_, bytes_)) return failureOf(whole);
    for (const GraphOp &op : whole.facts().ops) kept_.push_back(op.name);
    before_ = kept_.size();
    OPC_ASSIGN_OR_RETURN(wanted_, failureOn(path));
    if (StopSignal::caught()) return 128 + StopSignal::caught();
    if (!wanted_.isFailure())
      return usageError("the command does not fail for " + name_ + (options_.replay ? "" : ": " + options_.command),
                        "its exit code says whether it fails: --check 'opc run {} --fill rand --trap nan'");
    OPC_ASSIGN_OR_RETURN(const bool keepsFailing, fails(kept_));
    if (!keepsFailing)
      return usageError(
          "the command does not fail any more when every op of " + name_ + " becomes a graph of its own",
          "it depends on what is no op: the names of inputs and outputs, or variables that nothing reads");
    for (size_t chunk = std::max<size_t>(before_ / 2, 1); chunk > 0 && !StopSignal::caught();) {
      OPC_ASSIGN_OR_RETURN(const bool any, leaveAway(chunk));
      if (!any || chunk > 1) chunk = chunk > 1 ? chunk / 2 : 0; // single ones until none can go
    }
    return report();
  }

private:
  Result<FailureSignature> failureOn(const std::string &path) const {
    if (!options_.replay) return runForSignature(commandFor(path), options_.timeout);
    OPC_ASSIGN_OR_RETURN(CrashReplay::Result result, options_.replay->runOn(path));
    return result.signature;
  }

  std::string commandFor(const std::string &path) const {
    std::string text = options_.command;
    for (size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}", at)) {
      const std::string word = quoted(path);
      text.replace(at, 2, word);
      at += word.size();
    }
    return text;
  }

  /// The graph of these ops alone; empty when it cannot be made.
  std::string graphOf(const std::vector<std::string> &ops) const {
    CompileOptions options;
    options.train = false;
    Pipeline pipeline(registry_, options);
    GraphCut cut;
    cut.only = ops;
    if (!pipeline.import(name_, bytes_) || !pipeline.cut(std::move(cut)) || !pipeline.run(Phase::kShape)) return "";
    return pipeline.emit(Emit::kGraphText);
  }

  /// Whether the command fails for them as it does for the whole; what does is written.
  Result<bool> fails(const std::vector<std::string> &ops) {
    const std::string graph = graphOf(ops);
    if (graph.empty()) return false;
    const std::string trial = options_.output + ".trial.pbtxt";
    OPC_RETURN_IF_ERROR(writeGraphOutput(trial, graph, path_));
    Result<FailureSignature> found = failureOn(trial);
    std::error_code error;
    fs::remove(trial, error);
    fs::remove(options_.output + ".trial.ops.pbtxt", error);
    if (!found) return found.status();
    ++trials_;
    if (StopSignal::caught() || *found != wanted_) return false;
    OPC_RETURN_IF_ERROR(writeGraphOutput(options_.output, graph, path_));
    return true;
  }

  /// Tries to do without every `chunk` ops in turn, the last first: consumers before what they read.
  Result<bool> leaveAway(size_t chunk) {
    bool any = false;
    for (size_t end = kept_.size(); end > 0 && kept_.size() > 1 && !StopSignal::caught();) {
      const size_t begin = end > chunk ? end - chunk : 0;
      std::vector<std::string> fewer(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(begin));
      fewer.insert(fewer.end(), kept_.begin() + static_cast<std::ptrdiff_t>(end), kept_.end());
      invocation_.progress().begin("reducing: " + countText(kept_.size(), "op") + " left");
      if (!fewer.empty()) {
        OPC_ASSIGN_OR_RETURN(const bool same, fails(fewer));
        if (same) kept_ = std::move(fewer), any = true;
      }
      end = begin;
    }
    return any;
  }

  Outcome<int> report() {
    invocation_.progress().clear();
    const int signal = StopSignal::caught();
    if (invocation_.flags().json)
      invocation_.terminal().out(jsonText({{"schema", 1},
                                           {"graph", name_},
                                           {"output", options_.output},
                                           {"failure", wanted_.text(options_.timeout)},
                                           {"ops_before", before_},
                                           {"ops", kept_},
                                           {"trials", trials_},
                                           {"interrupted", signal != 0}}));
    else
      invocation_.note((signal ? "interrupted: " : "") + std::to_string(kept_.size()) + " of " +
                       countText(before_, "op") + " fail alike (" + wanted_.text(options_.timeout) + "), after " +
                       countText(trials_, "trial") + "; wrote " + options_.output);
    return signal ? 128 + signal : kExitOk;
  }

  Invocation &invocation_;
  const ReductionOptions &options_;
  Registry registry_;
  std::string path_, name_;
  SharedBytes bytes_;
  std::vector<std::string> kept_; // in the graph's order
  size_t before_ = 0;
  uint64_t trials_ = 0;
  FailureSignature wanted_;
};

} // namespace

std::vector<Option> ReductionOptions::options() {
  return {{"--check", 0, "COMMAND",
           "for reduce: what fails, in a shell; {} is the path of the graph (a bundle has its own)", &command, true},
          {"--output", 'o', "FILE", "for reduce: where the small graph goes", &output, true},
          Option{"--timeout", 0, "SECONDS", "a command that takes longer has hung (default 60)", &timeout}.above(0)};
}

Status ReductionOptions::check(const std::string &graph) const {
  const bool hasFailure = !command.empty() || replay;
  if (!hasFailure || output.empty())
    return usageError("reduce wants a command that fails and a file to write",
                      "opc debug reduce GRAPH --check 'opc run {} --fill rand --trap nan' -o small.pbtxt");
  if (!command.empty() && command.find("{}") == std::string::npos)
    return usageError("the command of --check has no {}, which stands for the path of the graph",
                      "--check 'opc run {} --fill rand'");
  if (output == "-") return usageError("the small graph goes to a file, not to standard output");
  OPC_RETURN_IF_ERROR(checkOutputPath(output, graph));
  FileUse files;
  files.readsGraph(graph, "the graph");
  OPC_RETURN_IF_ERROR(files.writes(output, "-o"));
  return checkEnding("-o", output, {".pbtxt", ".txt"});
}

Outcome<int> reduceGraph(Invocation &invocation, const ReductionOptions &options, const std::string &graph) {
  return Reduction(invocation, options).run(graph);
}

} // namespace opc::cli
