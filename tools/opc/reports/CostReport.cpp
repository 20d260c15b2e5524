// What a graph costs, and the tasks that it becomes.
// SPDX-License-Identifier: Apache-2.0
#include "CostReport.h"

#include "LargeNumbers.h"
#include "NumberText.h"
#include "PrintableText.h"
#include "TextTable.h"

#include <algorithm>

namespace opc::cli {

namespace {

constexpr size_t kMostOps = 20;

} // namespace

std::string costText(const GraphFacts &facts, size_t width) {
  const CostFacts &c = facts.costs;
  std::string text = "operations     " + wholeText(c.flops) + " flops\n";
  text += "traffic        " + largeBytesText(c.bytes) + " read and written by ops\n";
  if (!facts.mesh.ops.empty()) text += "communication  " + bytesText(c.commBytes) + " a step\n";
  text += "peak memory    " + bytesText(c.peakBytes) + ", of which " + bytesText(c.persistentBytes) + " stay\n";
  text += "tasks          " + countText(c.tasks) + "\n\n";
  std::vector<const GraphOp *> ops;
  for (const GraphOp &op : facts.ops) ops.push_back(&op);
  std::stable_sort(ops.begin(), ops.end(), [](const auto *a, const auto *b) { return a->flops > b->flops; });
  std::vector<std::vector<std::string>> rows = {{"OP", "TYPE", "FLOPS", "SHARE", "BYTES"}};
  for (size_t i = 0; i < ops.size() && i < kMostOps; ++i)
    rows.push_back({printableName(ops[i]->name), ops[i]->type, wholeText(ops[i]->flops),
                    c.flops > 0 ? roundedText(100 * ops[i]->flops / c.flops, 3) + " %" : "-",
                    largeBytesText(ops[i]->bytes)});
  if (ops.size() > kMostOps) rows.push_back({"... and " + countText(ops.size() - kMostOps, "op") + " with less"});
  return text + textTable(rows, width);
}

void addCostJson(const GraphFacts &facts, Json *document) {
  const CostFacts &c = facts.costs;
  Json ops = Json::array();
  for (const GraphOp &op : facts.ops)
    ops.push_back({{"name", op.name},
                   {"type", op.type},
                   {"role", op.role},
                   {"flops", wholeJson(op.flops)},
                   {"bytes", wholeJson(op.bytes)}});
  document->update({{"flops", wholeJson(c.flops)},
                    {"bytes", wholeJson(c.bytes)},
                    {"comm_bytes", c.commBytes},
                    {"peak_bytes", c.peakBytes},
                    {"persistent_bytes", c.persistentBytes},
                    {"tasks", c.tasks},
                    {"ops", std::move(ops)}});
}

std::string tasksText(const GraphFacts &facts, size_t width) {
  std::vector<std::vector<std::string>> rows = {{"TASK", "STREAM", "OP", "KERNEL"}};
  size_t number = 0; // the ops of a region are one task
  for (size_t i = 0; i < facts.tasks.size(); ++i) {
    const GraphTask &t = facts.tasks[i];
    if (i > 0 && (t.region < 0 || t.region != facts.tasks[i - 1].region)) ++number;
    rows.push_back({std::to_string(number), std::to_string(t.stream), printableName(t.op), t.kernel});
  }
  return textTable(rows, width);
}

Json tasksJson(const GraphFacts &facts) {
  Json list = Json::array();
  for (const GraphTask &t : facts.tasks) {
    list.push_back({{"op", t.op}, {"kernel", t.kernel}, {"stream", t.stream}});
    if (t.region >= 0) list.back()["region"] = t.region;
  }
  return list;
}

} // namespace opc::cli
