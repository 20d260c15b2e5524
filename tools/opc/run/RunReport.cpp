// The last step of a run: outputs compared, printed, and put into one document.
// SPDX-License-Identifier: Apache-2.0
#include "NumberText.h"
#include "RunSteps.h"

namespace opc::cli {

namespace {

/// What came of the comparisons.
struct Verdict {
  bool passed = true;
  Json compared = Json::array();
  std::string where; // run and reference differ first
};

Result<Verdict> compareAll(RunContext &c, PlannedRun &planned, const GivenRun &given, ExecutedRun &executed) {
  Verdict verdict;
  for (const Expectation &e : given.expectations)
    for (const NamedOutput &o : executed.outputs)
      if (o.name == e.name) verdict.passed &= c.options.expect.compare(c.invocation, o, e, &verdict.compared);
  if (verdict.passed || c.options.reference.empty() || planned.session->ranks() > 1) return verdict;
  OPC_ASSIGN_OR_RETURN(std::string found, executed.reference.firstDifference(*planned.session, c.options.expect));
  verdict.where = found;
  if (!verdict.where.empty()) c.invocation.terminal().err(verdict.where + "\n");
  return verdict;
}

void reportText(RunContext &c, const ExecutedRun &executed, const SessionStats &stats,
                const std::vector<RankStats> &ranks) {
  const std::vector<double> &seconds = executed.seconds;
  if (const int64_t repeats = c.options.repeat.value_or(1); repeats > 1)
    c.invocation.note(countText(static_cast<uint64_t>(repeats)) + " runs: median " + secondsText(executed.median()) +
                      ", fastest " + secondsText(seconds.front()) + ", slowest " + secondsText(seconds.back()));
  Terminal &terminal = c.invocation.terminal();
  if (c.options.stats) terminal.err(sizeText(stats) + ", " + secondsText(executed.median()) + " a run\n");
  terminal.err(rankStatsText(ranks));
  if (c.options.timing) terminal.err(c.watch.text());
}

Json inputsJson(const ValueReport &values) {
  Json list = Json::array();
  for (const ValueReport::Row &r : values.rows)
    list.push_back({{"name", r.name},
                    {"kind", r.kind},
                    {"dtype", dtypeJson(r.desc.data_type())},
                    {"shape", shapeJson(r.desc.shape())},
                    {"source", r.origin}});
  return list;
}

Json outputsJson(const std::vector<NamedOutput> &outputs, const OutputFiles &files, PrintMode mode) {
  Json list = Json::array();
  for (const NamedOutput &o : outputs) {
    Json j = outputJson(o, mode);
    for (const auto &[name, path] : files.files())
      if (name == o.name) j["file"] = path;
    list.push_back(std::move(j));
  }
  return list;
}

Json document(const RunContext &c, const PlannedRun &planned, const GivenRun &given, const ExecutedRun &executed,
              Verdict verdict) {
  Json j = {{"schema", 1},
            {"graph", planned.input.name},
            {"inputs", inputsJson(given.values)},
            {"outputs", outputsJson(executed.outputs, given.files, c.options.print)},
            {"notes", c.notes}};
  if (!given.expectations.empty()) {
    j["passed"] = verdict.passed;
    j["expectations"] = std::move(verdict.compared);
    if (!verdict.where.empty()) j["first_difference"] = verdict.where;
  }
  j["timing"] = {{"runs", c.options.repeat.value_or(1)},
                 {"median_s", executed.median()},
                 {"min_s", executed.seconds.front()},
                 {"max_s", executed.seconds.back()}};
  if (c.options.timing) j["timing"]["parts_s"] = c.watch.json();
  return j;
}

Json statsJson(const SessionStats &stats, const Json &phases) {
  return {{"tasks", stats.tasks},
          {"streams", stats.streams},
          {"arena_bytes", stats.arenaBytes},
          {"constant_bytes", stats.constantBytes},
          {"phases", phases}};
}

Json ranksJson(const std::vector<RankStats> &ranks) {
  Json list = Json::array();
  for (const RankStats &r : ranks)
    list.push_back({{"rank", r.rank},
                    {"arena_bytes", r.arenaBytes},
                    {"bytes_sent", r.bytesSent},
                    {"bytes_received", r.bytesReceived},
                    {"messages", r.messages}});
  return list;
}

} // namespace

Outcome<int> report(RunContext &c, PlannedRun &planned, const GivenRun &given, ExecutedRun &executed) {
  const bool json = c.invocation.flags().json;
  for (const std::string &n : c.notes) c.invocation.note("note: " + n);
  if (!json)
    for (const NamedOutput &o : executed.outputs) c.invocation.terminal().out(outputText(o, c.options.print));
  OPC_ASSIGN_OR_RETURN(Verdict verdict, compareAll(c, planned, given, executed));
  const bool passed = verdict.passed;
  const SessionStats stats = planned.session->stats();
  std::vector<RankStats> ranks;
  if (planned.session->ranks() > 1 && (c.options.stats || c.invocation.flags().verbose)) {
    OPC_ASSIGN_OR_RETURN(ranks, planned.session->rankStats());
  }
  if (!json) {
    reportText(c, executed, stats, ranks);
    return passed ? kExitOk : kExitNo;
  }
  Json all = document(c, planned, given, executed, std::move(verdict));
  if (c.options.stats) all["stats"] = statsJson(stats, planned.planner->phases());
  if (!ranks.empty()) all["ranks"] = ranksJson(ranks);
  c.invocation.terminal().out(jsonText(all));
  return passed ? kExitOk : kExitNo;
}

} // namespace opc::cli
