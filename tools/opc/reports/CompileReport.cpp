// What a compilation did.
// SPDX-License-Identifier: Apache-2.0
#include "CompileReport.h"

#include "NumberText.h"
#include "TextTable.h"

#include <algorithm>

namespace opc::cli {

namespace {

/// Live activation bytes at each of `columns` equal parts of the schedule: the most within the part.
std::vector<uint64_t> liveStrip(const MemoryFacts &memory, uint32_t tasks, size_t columns) {
  std::vector<int64_t> change(tasks + 1);
  for (const MemoryFacts::Slot &s : memory.slots) {
    if (s.kind != "activation" && s.kind != "workspace") continue;
    change[std::min(s.firstTask, tasks - 1)] += static_cast<int64_t>(s.bytes);
    change[std::min(s.lastTask, tasks - 1) + 1] -= static_cast<int64_t>(s.bytes);
  }
  std::vector<uint64_t> strip(columns);
  int64_t live = 0;
  for (uint32_t t = 0; t < tasks; ++t) {
    live += change[t];
    // A column covers several tasks, or a task several columns.
    const size_t begin = static_cast<size_t>(uint64_t{t} * columns / tasks);
    const size_t end = std::max(begin + 1, static_cast<size_t>((uint64_t{t} + 1) * columns / tasks));
    for (size_t c = begin; c < end && c < columns; ++c)
      strip[c] = std::max(strip[c], static_cast<uint64_t>(std::max<int64_t>(live, 0)));
  }
  return strip;
}

} // namespace

Json phasesJson(const std::vector<PhaseFacts> &phases) {
  Json list = Json::array();
  for (const PhaseFacts &s : phases) list.push_back({{"phase", s.name}, {"seconds", s.seconds}, {"ops", s.ops}});
  return list;
}

std::string phasesText(const std::vector<PhaseFacts> &phases) {
  std::string text = padded("PHASE", 12) + rightAligned("TIME", 10) + rightAligned("OPS", 12) + "\n";
  double total = 0;
  for (const PhaseFacts &s : phases) {
    total += s.seconds;
    text += padded(s.name, 12) + rightAligned(secondsText(s.seconds), 10) + rightAligned(countText(s.ops), 12) + "  " +
            s.doc + "\n";
  }
  return text + padded("total", 12) + rightAligned(secondsText(total), 10) + "\n";
}

Json memoryJson(const MemoryFacts &m, bool slots) {
  Json j = {{"arena_bytes", m.arenaBytes},
            {"persistent_bytes", m.persistentBytes},
            {"activation_bytes", m.activationBytes},
            {"live_lower_bound", m.liveLowerBound}};
  if (!slots) return j;
  Json list = Json::array();
  for (const MemoryFacts::Slot &s : m.slots)
    list.push_back({{"name", s.name},
                    {"kind", s.kind},
                    {"offset", s.offset},
                    {"bytes", s.bytes},
                    {"first_task", s.firstTask},
                    {"last_task", s.lastTask}});
  j["slots"] = std::move(list);
  return j;
}

bool hasGraphSlots(const MemoryFacts &m) {
  return std::any_of(m.slots.begin(), m.slots.end(), [](const MemoryFacts::Slot &s) { return s.kind == "graph"; });
}

std::string memoryText(const MemoryFacts &m) {
  std::string text =
      "peak         " + bytesText(m.arenaBytes) + ": activations " + bytesText(m.activationBytes) +
      (hasGraphSlots(m) ? ", graphs in ops, variables, constants and inputs " : ", variables, constants and inputs ") +
      bytesText(m.persistentBytes) + "\n";
  text += "lower bound  " + bytesText(m.liveLowerBound) + " of activations are live at once";
  if (m.liveLowerBound && m.activationBytes >= m.liveLowerBound) {
    const double over = 100.0 * (static_cast<double>(m.activationBytes) / static_cast<double>(m.liveLowerBound) - 1);
    text += "; the plan is " + roundedText(over, 3) + " % above";
  }
  text += "\n";

  uint32_t tasks = 0;
  for (const MemoryFacts::Slot &s : m.slots)
    if (s.kind == "activation" || s.kind == "workspace") tasks = std::max(tasks, s.lastTask + 1);
  if (tasks) {
    const std::vector<uint64_t> strip = liveStrip(m, tasks, 60);
    const uint64_t most = std::max<uint64_t>(*std::max_element(strip.begin(), strip.end()), 1);
    const std::string levels = " .:-=+*#%@";
    std::string line;
    for (uint64_t bytes : strip) line += levels[bytes ? 1 + static_cast<size_t>((bytes - 1) * 9 / most) : 0];
    text += "live         |" + line + "|\n";
    text += "             task 0" + rightAligned("task " + std::to_string(tasks - 1), 56) + "\n";
  }

  std::vector<const MemoryFacts::Slot *> largest;
  for (const MemoryFacts::Slot &s : m.slots) largest.push_back(&s);
  std::stable_sort(largest.begin(), largest.end(), [](const auto *a, const auto *b) { return a->bytes > b->bytes; });
  if (largest.size() > 5) largest.resize(5);
  if (!largest.empty()) text += "largest buffers\n";
  for (const MemoryFacts::Slot *s : largest)
    text += rightAligned(bytesText(s->bytes), 12) + "  " + padded(s->kind, 10) + "  " + s->name + "\n";
  return text;
}

} // namespace opc::cli
