// --report: a page of the run.
// SPDX-License-Identifier: Apache-2.0
#include "RunPage.h"

#include "GraphReport.h"
#include "HtmlPage.h"
#include "Markup.h"
#include "NumberText.h"
#include "PrintableText.h"
#include "RunSteps.h"
#include "RunTimes.h"
#include "TextParts.h"

#include <map>

namespace opc::cli {

namespace {

/// A number or a text of a JSON document; empty where it is not there.
std::string jsonValue(const Json &object, const char *key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  if (found->is_number_float()) return roundedText(found->get<double>(), 6);
  return found->is_string() ? found->get<std::string>() : found->dump();
}

std::string outputsTable(const ExecutedRun &executed) {
  std::vector<std::vector<std::string>> rows;
  for (const NamedOutput &o : executed.outputs) {
    const Json j = outputJson(o, PrintMode{});
    rows.push_back({o.name, typeText(o.tensor.dtype(), o.tensor.shape()), jsonValue(j, "min"), jsonValue(j, "max"),
                    jsonValue(j, "mean"), jsonValue(j, "nan"), jsonValue(j, "infinite")});
  }
  return "<h3>Outputs</h3>\n" + htmlTable({"output", "type", "min", "max", "mean", "NaN", "infinite"}, rows);
}

std::string comparisonTable(const RunVerdict &verdict) {
  if (verdict.compared.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const Json &c : verdict.compared) {
    std::string worst;
    if (c.contains("worst"))
      worst = concat(c["worst"]["index"].dump(), ": got ", jsonValue(c["worst"], "got"), ", expected ",
                     jsonValue(c["worst"], "expected"));
    rows.push_back({jsonValue(c, "name"), c.at("passed").get<bool>() ? "as expected" : "DIFFERS",
                    jsonValue(c, "expected"), jsonValue(c, "rtol"), jsonValue(c, "atol"), jsonValue(c, "mismatches"),
                    jsonValue(c, "max_abs"), jsonValue(c, "max_rel"), worst});
  }
  std::string out = "<h3>Compared with what was expected</h3>\n" +
                    htmlTable({"output", "verdict", "expected", "rtol", "atol", "mismatches", "largest difference",
                               "relative", "worst"},
                              rows);
  if (!verdict.where.empty()) out += htmlLines(verdict.where);
  return out;
}

std::string ranksTable(const std::vector<RankStats> &ranks) {
  if (ranks.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const RankStats &r : ranks)
    rows.push_back({std::to_string(r.rank), bytesText(r.bytesSent), bytesText(r.bytesReceived), countText(r.messages),
                    bytesText(r.arenaBytes)});
  return "<h3>Ranks</h3>\n" + htmlTable({"rank", "sent", "received", "messages", "memory"}, rows);
}

GraphPage::Part resultsPart(const RunContext &c, const ExecutedRun &executed, const RunVerdict &verdict,
                            const std::vector<RankStats> &ranks) {
  std::string body =
      htmlLines(runTimesText(executed.seconds)) + comparisonTable(verdict) + outputsTable(executed) + ranksTable(ranks);
  if (c.options.profile) body += "<h3>Profile</h3>\n" + htmlLines(c.profile.text(0));
  return {"run", "Run", body};
}

} // namespace

void RunTimeline::begin() {
  tasks_.clear();
  cut_ = false;
}

Status RunTimeline::before(const ObservedTask &task, int64_t, TaskData &) {
  std::unique_lock<std::mutex> guard(lock_);
  Clock::time_point &start = starts_[{task.rank, task.stream}]; // which stays where it is
  guard.unlock();
  start = Clock::now();
  return Status::ok();
}

Status RunTimeline::after(const ObservedTask &task, int64_t, TaskData &) {
  if (task.isView) return Status::ok(); // takes no time
  const Clock::time_point end = Clock::now();
  std::lock_guard<std::mutex> guard(lock_);
  if (tasks_.size() < kMaxTasks)
    tasks_.push_back({&task, starts_[{task.rank, task.stream}], end});
  else
    cut_ = true;
  return Status::ok();
}

Json RunTimeline::json() const {
  const auto wall = [this](Clock::time_point t) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(wallOrigin_.time_since_epoch() + (t - origin_)).count();
  };
  Json spans = Json::array();
  for (const Task &t : tasks_)
    spans.push_back({t.task->rank, t.task->stream, t.task->name, wall(t.begin), wall(t.end), t.task->isTransfer});
  return {{"spans", std::move(spans)}, {"cut", cut_}};
}

Result<PageTimeline> RunTimeline::timeline(const RankJob &job) const {
  const std::string mine = json().dump(-1, ' ', false, Json::error_handler_t::replace);
  OPC_ASSIGN_OR_RETURN(const std::vector<std::string> all, job.gather(mine));
  PageTimeline timeline;
  timeline.title = "Measured";
  timeline.measured = true;
  bool isCut = false;
  int64_t first = INT64_MAX, last = INT64_MIN;
  std::map<std::pair<int64_t, uint32_t>, uint32_t> lanes;
  std::vector<Json> parts;
  for (const std::string &text : all) {
    parts.push_back(Json::parse(text));
    isCut |= parts.back()["cut"].get<bool>();
    for (const Json &s : parts.back()["spans"]) {
      first = std::min(first, s[3].get<int64_t>());
      last = std::max(last, s[4].get<int64_t>());
      lanes[{s[0], s[1]}] = 0;
    }
  }
  for (auto &[where, lane] : lanes) {
    lane = static_cast<uint32_t>(timeline.lanes.size());
    timeline.lanes.push_back(concat(job.ranks() > 1 ? concat("rank ", where.first, " ") : "", "stream ", where.second));
  }
  const auto seconds = [](int64_t ns) { return static_cast<double>(ns) / 1e9; };
  for (const Json &part : parts)
    for (const Json &s : part["spans"]) {
      const auto begin = s[3].get<int64_t>(), end = s[4].get<int64_t>();
      timeline.spans.push_back({lanes[{s[0], s[1]}], s[2], seconds(begin - first), seconds(end - begin), s[5]});
    }
  timeline.note = "The last run";
  if (!timeline.spans.empty()) timeline.note += ": " + secondsText(seconds(last - first));
  if (isCut) timeline.note += concat("; the first ", kMaxTasks, " tasks of it");
  sortSpans(&timeline);
  return timeline;
}

namespace {

/// The graph's file, when it is what ran.
std::string checkedFile(const RunOptions &o, const GraphInput &input) {
  const bool isOther = o.cut.any() || !o.shapes.empty() || o.opFlags.any() || o.asksForOutputs();
  return isOther || input.path.empty() || input.path == "-" ? "" : input.path;
}

} // namespace

Status writeRunPage(RunContext &c, const PlannedRun &planned, const ExecutedRun &executed, const RunVerdict &verdict,
                    const std::vector<RankStats> &ranks) {
  OPC_ASSIGN_OR_RETURN(PageTimeline measured, c.timeline.timeline(c.options.ranks));
  if (!c.options.ranks.isFirst()) return Status::ok();
  GraphPage page{planned.facts, planned.input.name};
  page.first.push_back(resultsPart(c, executed, verdict, ranks));
  page.showsTimes = true; // a run differs from the next one in any case
  page.timelines.push_back(std::move(measured));
  if (Result<PageTimeline> simulated = plannedTimeline(planned.plan, *planned.registry, nullptr))
    page.timelines.push_back(std::move(*simulated));
  if (!planned.input.isPlan) addFindings(*planned.registry, checkedFile(c.options, planned.input), &page);
  OPC_RETURN_IF_ERROR(writeFileAtomically(c.options.report, graphHtml(page)));
  c.invocation.note("report in " + printableName(c.options.report));
  return Status::ok();
}

} // namespace opc::cli
