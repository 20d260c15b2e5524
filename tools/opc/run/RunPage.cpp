// --report: a page of the run.
// SPDX-License-Identifier: Apache-2.0
#include "RunPage.h"

#include "GraphPage.h"
#include "HtmlPage.h"
#include "Markup.h"
#include "NumberText.h"
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

GraphPage::Part resultsPart(const RunContext &c, const ExecutedRun &executed, const RunVerdict &verdict) {
  std::string body = htmlLines(runTimesText(executed.seconds)) + comparisonTable(verdict) + outputsTable(executed);
  if (c.options.profile) body += "<h3>Profile</h3>\n" + htmlLines(c.profile.text(0));
  return {"run", "Run", body};
}

} // namespace

RunTimeline::Clock::time_point &RunTimeline::startOf(uint32_t stream) {
  std::lock_guard<std::mutex> guard(lock_);
  while (starts_.size() <= stream) starts_.emplace_back(); // a deque: what is there stays where it is
  return starts_[stream];
}

Status RunTimeline::before(const ObservedTask &task, int64_t, TaskData &) {
  Clock::time_point &start = startOf(task.stream);
  start = Clock::now();
  return Status::ok();
}

Status RunTimeline::after(const ObservedTask &task, int64_t step, TaskData &) {
  if (task.isView) return Status::ok(); // takes no time
  const Clock::time_point end = Clock::now(), begin = startOf(task.stream);
  std::lock_guard<std::mutex> guard(lock_);
  if (step > step_) {
    step_ = step;
    tasks_.clear();
    cut_ = false;
  }
  if (tasks_.size() < kMaxTasks)
    tasks_.push_back({&task, begin, end});
  else
    cut_ = true;
  return Status::ok();
}

PageTimeline RunTimeline::timeline() const {
  PageTimeline timeline;
  timeline.title = "Measured";
  timeline.measured = true;
  Clock::time_point first = Clock::time_point::max(), last = Clock::time_point::min();
  std::map<uint32_t, uint32_t> lanes;
  for (const Task &t : tasks_) {
    first = std::min(first, t.begin);
    last = std::max(last, t.end);
    lanes[t.task->stream] = 0;
  }
  for (auto &[stream, lane] : lanes) {
    lane = static_cast<uint32_t>(timeline.lanes.size());
    timeline.lanes.push_back(concat("stream ", stream));
  }
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  for (const Task &t : tasks_)
    timeline.spans.push_back(
        {lanes[t.task->stream], t.task->name, seconds(t.begin - first), seconds(t.end - t.begin), false});
  timeline.note = "The last run";
  if (!tasks_.empty()) timeline.note += ": " + secondsText(seconds(last - first));
  if (cut_) timeline.note += concat("; its first ", kMaxTasks, " tasks");
  sortSpans(&timeline);
  return timeline;
}

Status writeRunPage(RunContext &c, const PlannedRun &planned, const ExecutedRun &executed, const RunVerdict &verdict) {
  GraphPage page{planned.facts, planned.input.name};
  page.first.push_back(resultsPart(c, executed, verdict));
  page.showsTimes = true; // a run differs from the next one in any case
  page.timelines.push_back(c.timeline.timeline());
  if (Result<PageTimeline> simulated = plannedTimeline(planned.plan, *planned.registry, nullptr))
    page.timelines.push_back(std::move(*simulated));
  OPC_RETURN_IF_ERROR(writeFileAtomically(c.options.report, graphHtml(page)));
  c.invocation.note("report in " + c.options.report);
  return Status::ok();
}

} // namespace opc::cli
