// opc bench: how long a graph takes, alone or beside another one.
// SPDX-License-Identifier: Apache-2.0
#include "GraphBench.h"

#include "FileBytes.h"
#include "JsonOutput.h"
#include "MachineReport.h"
#include "NumberText.h"
#include "OutputFiles.h"
#include "PairedTimes.h"
#include "RunSteps.h"
#include "RunTimes.h"
#include "StopSignal.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace opc::cli {

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A graph that runs, and how long it took, round by round: seconds of one run.
struct Contender {
  PlannedRun planned;
  std::vector<double> seconds;
  int64_t runsOfRound = 1;

  Status warmUp() {
    // A round is long enough for the clock, and short enough for others to have their turn.
    constexpr double kRound = 5e-3;
    OPC_RETURN_IF_ERROR(planned.session->run());
    const auto start = Clock::now();
    int64_t runs = 0;
    do {
      OPC_RETURN_IF_ERROR(planned.session->run());
      ++runs;
    } while (secondsSince(start) < kRound);
    runsOfRound = runs;
    return Status::ok();
  }
  Status round() {
    const auto start = Clock::now();
    for (int64_t i = 0; i < runsOfRound; ++i) OPC_RETURN_IF_ERROR(planned.session->run());
    seconds.push_back(secondsSince(start) / static_cast<double>(runsOfRound));
    return Status::ok();
  }
  std::vector<double> sorted() const {
    std::vector<double> list = seconds;
    std::sort(list.begin(), list.end());
    return list;
  }
};

/// What times of different machines cannot be compared by.
std::string machineTag(const Invocation &invocation) {
  return inspectMachine().processor + ", " +
         (invocation.threads() ? countText(static_cast<uint64_t>(invocation.threads()), "thread")
                               : "a thread for each core");
}

/// A file of --save.
struct SavedTimes {
  std::string graph, machine;
  double p50 = 0;
};

class Bench {
public:
  Bench(Invocation &invocation, BenchOptions &options) : invocation_(invocation), options_(options) {}

  Outcome<int> run() {
    std::optional<SavedTimes> saved;
    if (!options_.baseline.empty()) {
      OPC_ASSIGN_OR_RETURN(saved, readSaved());
    }
    const bool paired = !options_.baseline.empty() && !saved;
    Outcome<Contender> graph = prepare(options_.run.graph);
    if (!graph) return graph.status();
    std::optional<Contender> other;
    if (paired) {
      Outcome<Contender> prepared = prepare(options_.baseline);
      if (!prepared) return prepared.status();
      other = std::move(*prepared);
    }
    const StopSignal stop;
    OPC_RETURN_IF_ERROR(measure(*graph, other ? &*other : nullptr));
    return report(*graph, other ? &*other : nullptr, saved);
  }

private:
  /// With the values of the command line, whichever graph it is.
  Outcome<Contender> prepare(const std::string &graph) {
    options_.run.graph = graph;
    RunContext context{invocation_, options_.run};
    Contender contender;
    Outcome<PlannedRun> planned = planRun(context);
    if (!planned) return planned.status();
    contender.planned = std::move(*planned);
    Outcome<GivenRun> given = giveValues(context, contender.planned);
    if (!given) return given.status();
    return contender;
  }

  Status measure(Contender &graph, Contender *other) {
    OPC_RETURN_IF_ERROR(graph.warmUp());
    if (other) OPC_RETURN_IF_ERROR(other->warmUp());
    Progress &progress = invocation_.progress();
    progress.begin("measuring", static_cast<uint64_t>(options_.rounds));
    Status status;
    for (int64_t i = 0; status && i < options_.rounds && !StopSignal::caught(); ++i) {
      // Who is first changes: what one leaves in the caches, and what slows the machine down, meets both alike.
      Contender *first = i % 2 && other ? other : &graph, *second = first == other ? &graph : other;
      status = first->round();
      if (status && second) status = second->round();
      progress.advance(static_cast<uint64_t>(i + 1));
    }
    progress.clear();
    return status;
  }

  static Status damaged(const std::string &path, const std::string &why) {
    return Status(StatusCode::kUsage, "OPC0003", path + ": no file that opc bench --save wrote: " + why)
        .withHelp("a baseline is such a file, a graph, a plan, or git:REV:PATH");
  }

  /// Nothing when the baseline is no file of JSON.
  Result<std::optional<SavedTimes>> readSaved() const {
    const std::string &path = options_.baseline;
    if (path.size() < 5 || path.compare(path.size() - 5, 5, ".json") != 0) return std::optional<SavedTimes>();
    OPC_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::open(path));
    const Json document = Json::parse(file.view(), nullptr, false);
    if (!document.is_object()) return damaged(path, "it is no JSON object");
    if (document.value("schema", Json()) != 1 || !document.value("machine", Json()).is_string() ||
        !document.value("graph", Json()).is_string() || !document.value("p50_s", Json()).is_number())
      return damaged(path, "it lacks schema 1, machine, graph or p50_s");
    SavedTimes saved{document["graph"], document["machine"], document["p50_s"]};
    if (!(saved.p50 > 0)) return damaged(path, "p50_s is not above 0");
    if (const std::string here = machineTag(invocation_); saved.machine != here)
      return Status(StatusCode::kUnsupported, "OPC0414",
                    path + " is of another machine: " + saved.machine + "; this one is " + here)
          .withHelp("give the graph itself as baseline, which is then measured here: --baseline git:main:PATH");
    return std::optional<SavedTimes>(std::move(saved));
  }

  Json times(const std::string &name, const Contender &c) const {
    const std::vector<double> sorted = c.sorted();
    const SessionStats stats = c.planned.session->stats();
    return {{"schema", 1},
            {"graph", name},
            {"machine", machineTag(invocation_)},
            {"rounds", c.seconds.size()},
            {"runs_of_a_round", c.runsOfRound},
            {"p50_s", percentileOf(sorted, 50)},
            {"p90_s", percentileOf(sorted, 90)},
            {"p99_s", percentileOf(sorted, 99)},
            {"fastest_s", sorted.empty() ? 0 : sorted.front()},
            {"slowest_s", sorted.empty() ? 0 : sorted.back()},
            {"tasks", stats.tasks},
            {"arena_bytes", stats.arenaBytes}};
  }

  static std::string line(const std::string &name, const Contender &c) {
    return name + ": " + runTimesText(c.seconds) + "\n";
  }

  static std::string percent(double ratio) { return roundedText((ratio - 1) * 100, 3) + " %"; }

  Outcome<int> report(const Contender &graph, const Contender *other, const std::optional<SavedTimes> &saved) {
    const std::string &name = graph.planned.input.name;
    const int signal = StopSignal::caught();
    if (graph.seconds.empty()) return 128 + signal;
    std::optional<MedianInterval> ratio;
    if (other) {
      ratio = ratioInterval(graph.seconds, other->seconds);
    } else if (saved) {
      const MedianInterval m = medianInterval(graph.seconds);
      ratio = MedianInterval{m.median / saved->p50, m.low / saved->p50, m.high / saved->p50};
    }
    const bool isSlower = ratio && ratio->low > 1 + options_.tolerance;
    Json document = times(name, graph);
    if (!options_.save.empty() && !signal) OPC_RETURN_IF_ERROR(writeFileAtomically(options_.save, jsonText(document)));
    std::string text = line(name, graph);
    if (other) text += line(options_.baseline, *other);
    if (ratio) {
      const char *verdict = isSlower ? "slower" : ratio->high < 1 ? "faster" : "no regression";
      text += std::string(verdict) + ": " + percent(ratio->median) + " beside " + options_.baseline +
              " (95 %: " + percent(ratio->low) + " to " + percent(ratio->high) + "; more than " +
              percent(1 + options_.tolerance) + " is a regression)\n";
      document["baseline"] = {{"name", options_.baseline}, {"paired", other != nullptr},
                              {"ratio", ratio->median},    {"ratio_low", ratio->low},
                              {"ratio_high", ratio->high}, {"tolerance", options_.tolerance},
                              {"regression", isSlower}};
      if (other) document["baseline"]["p50_s"] = percentileOf(other->sorted(), 50);
      if (saved) document["baseline"]["p50_s"] = saved->p50;
    }
    invocation_.terminal().out(invocation_.flags().json ? jsonText(document) : text);
    if (signal) return 128 + signal;
    return isSlower ? kExitNo : kExitOk;
  }

  Invocation &invocation_;
  BenchOptions &options_;
};

} // namespace

std::vector<Option> BenchOptions::options() {
  const std::set<std::string> ofRuns = {"--input", "--inputs",  "--weights",     "--partial-weights",
                                        "--fill",  "--seed",    "--cast",        "--until",
                                        "--shape", "--no-fuse", "--no-simplify", "--max-memory"};
  std::vector<Option> list;
  for (Option &option : run.options())
    if (ofRuns.count(option.name)) list.push_back(std::move(option));
  list.push_back({"--baseline", 0, "GRAPH|PLAN|FILE.json",
                  "what the graph is held against: another graph or plan (also git:REV:PATH), which runs in turn with "
                  "it, or a file of --save",
                  &baseline, true});
  list.push_back(
      Option{"--tolerance", 0, "X", "how much longer is no regression (default 0.05: 5 %)", &tolerance, true}.range(
          0, 1000));
  list.push_back(Option{"--rounds", 0, "N", "times that each is measured (default 31)", &rounds}.range(6, 1000000));
  list.push_back({"--save", 0, "FILE.json", "write the times, for --baseline on the same machine", &save});
  return list;
}

Status BenchOptions::check(const Invocation &invocation, const std::string &graph) {
  run.values.program = run.cpuAlone = "opc bench";
  OPC_RETURN_IF_ERROR(run.check(invocation, graph));
  if (save.empty()) return Status::ok();
  if (save.size() < 5 || save.compare(save.size() - 5, 5, ".json") != 0)
    return usageError("--save writes JSON: its name ends in .json, and '" + save + "' does not");
  OPC_RETURN_IF_ERROR(checkOutputPath(save, graph));
  return run.filesRead(invocation).writes(save, "--save");
}

Outcome<int> benchGraph(Invocation &invocation, BenchOptions &options) { return Bench(invocation, options).run(); }

} // namespace opc::cli
