// What the planner has decided, as text and JSON.
// SPDX-License-Identifier: Apache-2.0
#include "MeshFlags.h"

#include "NumberText.h"
#include "TextTable.h"

#include <algorithm>

namespace opc::cli {

namespace {

std::string stateChange(const MeshFacts::Transition &t) { return t.from + " -> " + t.to; }

std::string where(const MeshFacts::Transition &t) {
  if (t.source != t.target) return std::to_string(t.source) + " -> " + std::to_string(t.target);
  return t.meshDim < 0 ? "-" : "dim " + std::to_string(t.meshDim);
}

std::string names(const std::vector<std::string> &tensors) {
  if (tensors.size() == 1) return tensors[0];
  return tensors[0] + " and " + countText(tensors.size() - 1) + " more";
}

std::string costText(const MeshFacts &r) {
  if (r.method.empty()) return "what the states cost is not in the IR\n"; // it was known when they were chosen
  std::string text = "cost " + secondsText(r.cost) + " a step, of which computation " + secondsText(r.computeSeconds);
  if (r.method == "random signatures") return text + "; signatures at random\n";
  text += "; lower bound " + secondsText(r.lowerBound) + ", gap " + (r.gap == 0 ? "0" : secondsText(r.gap));
  text += r.gap == 0 ? ": proven optimal (" + r.method + ")" : ": NOT proven optimal (" + r.method + ")";
  if (r.planningSeconds == 0) return text + "\n"; // a page that is the same for every run
  return text + "\nplanned in " + secondsText(r.planningSeconds) + ", " + countText(r.variables) + " variables, " +
         countText(r.distinct) + " distinct eliminations\n";
}

} // namespace

std::string boxingText(const MeshFacts &r, size_t limit, size_t width) {
  std::vector<const MeshFacts::Transition *> list;
  int64_t bytes = 0;
  double seconds = 0;
  for (const auto &t : r.transitions) {
    list.push_back(&t);
    bytes += t.bytes;
    seconds += t.seconds;
  }
  if (list.empty()) return "no transitions\n";
  std::stable_sort(list.begin(), list.end(), [](const auto *a, const auto *b) { return a->bytes > b->bytes; });
  std::vector<std::vector<std::string>> rows = {{"TENSOR", "COLLECTIVE", "STATES", "ON", "SENT BY A RANK", "TIME", ""}};
  for (size_t i = 0; i < list.size() && i < limit; ++i) {
    const auto *t = list[i];
    rows.push_back({names(t->tensors), t->kind, stateChange(*t), where(*t), bytesText(t->bytes),
                    secondsText(t->seconds), t->channel ? "beside the computation" : ""});
  }
  if (list.size() > limit) rows.push_back({"... and " + countText(list.size() - limit) + " more"});
  return textTable(rows, width) + countText(list.size(), "transition") + ", " + bytesText(bytes) +
         " sent by a rank in a step, " + secondsText(seconds) + "\n";
}

std::string sbpText(const MeshFacts &r, size_t width) {
  std::string text;
  for (size_t i = 0; i < r.placements.size(); ++i)
    text += (i ? "placement " + std::to_string(i) + ": " : std::string("mesh ")) + r.placements[i].toString() + "\n";
  text += costText(r);
  if (r.stages > 1) {
    // Of m + n - 1 turns of n stages each stage works in m, when stages take equally long.
    const double m = static_cast<double>(r.microBatches), n = static_cast<double>(r.stages);
    text += "pipeline of " + countText(r.stages) + " stages, " + countText(r.microBatches) +
            " micro-batches: bubbles take " + roundedText(100 * (n - 1) / (m + n - 1), 3) +
            " % of the time of equal stages\n";
  }
  text += "\n";
  std::vector<std::vector<std::string>> rows = {{"OP", "TYPE", "SIGNATURE"}};
  if (r.placements.size() > 1) rows[0].push_back("PLACEMENT");
  for (const auto &o : r.ops) {
    rows.push_back({o.name, o.type, o.signature});
    if (r.placements.size() > 1) rows.back().push_back(std::to_string(o.placement));
  }
  return text + textTable(rows, width) + "\n" + boxingText(r, SIZE_MAX, width);
}

Json sbpJson(const MeshFacts &r) {
  Json placements = Json::array(), ops = Json::array(), transitions = Json::array();
  for (const Placement &p : r.placements) placements.push_back({{"dims", p.dims}, {"ranks", p.ranks}});
  for (const auto &o : r.ops)
    ops.push_back({{"name", o.name}, {"type", o.type}, {"signature", o.signature}, {"placement", o.placement}});
  for (const auto &t : r.transitions)
    transitions.push_back({{"tensors", t.tensors},
                           {"kind", t.kind},
                           {"from", t.from},
                           {"to", t.to},
                           {"mesh_dim", t.meshDim},
                           {"bytes", t.bytes},
                           {"seconds", t.seconds},
                           {"channel", t.channel},
                           {"source", t.source},
                           {"target", t.target}});
  return {{"placements", placements},
          {"cost", r.cost},
          {"lower_bound", r.lowerBound},
          {"gap", r.gap},
          {"compute_seconds", r.computeSeconds},
          {"method", r.method},
          {"planning_seconds", r.planningSeconds},
          {"stages", r.stages},
          {"micro_batches", r.microBatches},
          {"bubble_fraction", static_cast<double>(r.stages - 1) / static_cast<double>(r.microBatches + r.stages - 1)},
          {"variables", r.variables},
          {"distinct", r.distinct},
          {"ops", ops},
          {"transitions", transitions}};
}

} // namespace opc::cli
