// The last step of a run: outputs compared, printed, and put into one document.
// SPDX-License-Identifier: Apache-2.0
#include "Codegen.h"
#include "Log.h"
#include "NumberText.h"
#include "RankDevices.h"
#include "RunSteps.h"
#include "RunTimes.h"
#include "TextTable.h"

namespace opc::cli {

namespace {

Result<RunVerdict> compareAll(RunContext &c, PlannedRun &planned, const GivenRun &given, ExecutedRun &executed) {
  RunVerdict verdict;
  for (const Expectation &e : given.expectations)
    for (const NamedOutput &o : executed.outputs)
      if (o.name == e.name) verdict.passed &= c.options.expect.compare(c.invocation, o, e, &verdict.compared);
  if (verdict.passed || c.options.reference.empty() || planned.session->ranks() > 1) return verdict;
  OPC_ASSIGN_OR_RETURN(std::string found, executed.reference.firstDifference(*planned.session, c.options.expect));
  verdict.where = found;
  if (!verdict.where.empty()) c.invocation.terminal().err(verdict.where + "\n");
  return verdict;
}

/// What machine code there is for regions; "" for none.
std::string codegenText() {
  const auto compiler = std::dynamic_pointer_cast<RegionCodegen>(regionCompiler());
  const CodegenStats made = compiler ? compiler->stats() : CodegenStats();
  if (made.compiled + made.refused == 0) return "";
  return "machine code for " + countText(made.compiled + made.reused, "region") + " (" + std::to_string(made.reused) +
         " equal to others, " + std::to_string(made.cached) + " from disk, " + std::to_string(made.refused) +
         " without): " + bytesText(made.bytes) + ", compiled in " + secondsText(made.seconds) + "\n";
}

void reportText(RunContext &c, const ExecutedRun &executed, const SessionStats &stats,
                const std::vector<RankStats> &ranks) {
  Terminal &terminal = c.invocation.terminal();
  if (executed.signal)
    terminal.err("interrupted: " + runTimesText(executed.seconds) + "\n"); // -q or not: it was asked for by hand
  else if (c.options.repeat.value_or(1) > 1)
    c.invocation.note(runTimesText(executed.seconds));
  if (c.options.profile) terminal.err(c.profile.text(errTableWidth()));
  if (c.options.stats)
    terminal.err(sizeText(stats) + ", " + secondsText(percentileOf(executed.seconds, 50)) + " a run\n" + codegenText());
  if (const std::string how = exchangeOfDevices(); c.options.stats && !how.empty())
    terminal.err("ranks exchange " + how + "\n");
  terminal.err(rankStatsText(ranks));
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
              RunVerdict verdict) {
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
  const double median = percentileOf(executed.seconds, 50);
  j["timing"] = {{"runs", executed.seconds.size()},
                 {"median_s", median}, // what p50_s was called first
                 {"p50_s", median},
                 {"p90_s", percentileOf(executed.seconds, 90)},
                 {"p99_s", percentileOf(executed.seconds, 99)},
                 {"interrupted", executed.signal != 0},
                 {"min_s", percentileOf(executed.seconds, 0)},
                 {"max_s", percentileOf(executed.seconds, 100)}};
  if (c.invocation.flags().timing) j["timing"]["parts_s"] = c.invocation.watch().json();
  if (c.options.profile) j["profile"] = c.profile.json();
  return j;
}

Json codegenJson() {
  const auto compiler = std::dynamic_pointer_cast<RegionCodegen>(regionCompiler());
  const CodegenStats made = compiler ? compiler->stats() : CodegenStats();
  return {{"compiled", made.compiled}, {"reused", made.reused},    {"refused", made.refused},
          {"cached", made.cached},     {"code_bytes", made.bytes}, {"seconds", made.seconds}};
}

Json statsJson(const SessionStats &stats, const Json &phases) {
  return {
      {"tasks", stats.tasks},
      {"views", stats.views},
      {"prepared", stats.prepared},
      {"streams", stats.streams},
      {"arena_bytes", stats.arenaBytes},
      {"constant_bytes", stats.constantBytes},
      {"phases", phases},
      {"codegen", codegenJson()},
      {"native", {{"images", stats.nativeImages}, {"loops", stats.nativeRegions}, {"code_bytes", stats.nativeBytes}}}};
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
  if (const std::string how = exchangeOfDevices(); !how.empty() && !c.options.stats) logInfo("ranks exchange " + how);
  const bool isQuiet = c.invocation.flags().quiet && c.options.print.kind == PrintMode::Kind::kSummary;
  if (!json && !isQuiet)
    for (const NamedOutput &o : executed.outputs) c.invocation.terminal().out(outputText(o, c.options.print));
  OPC_ASSIGN_OR_RETURN(RunVerdict verdict, compareAll(c, planned, given, executed));
  const int code = executed.signal ? 128 + executed.signal : verdict.passed ? kExitOk : kExitNo;
  const SessionStats stats = planned.session->stats();
  std::vector<RankStats> ranks;
  const bool isAsked = c.options.stats || c.invocation.flags().verbose;
  if (planned.session->ranks() > 1 && (isAsked || !c.options.report.empty())) {
    OPC_ASSIGN_OR_RETURN(ranks, planned.session->rankStats());
  }
  if (!c.options.report.empty()) OPC_RETURN_IF_ERROR(writeRunPage(c, planned, executed, verdict, ranks));
  if (!isAsked) ranks.clear();
  if (!json) {
    reportText(c, executed, stats, ranks);
    return code;
  }
  Json all = document(c, planned, given, executed, std::move(verdict));
  if (c.options.stats) {
    all["stats"] = statsJson(stats, planned.planner->phases());
    if (const std::string how = exchangeOfDevices(); !how.empty()) all["stats"]["collectives"] = how;
  }
  if (!ranks.empty()) all["ranks"] = ranksJson(ranks);
  c.invocation.terminal().out(jsonText(all));
  return code;
}

} // namespace opc::cli
