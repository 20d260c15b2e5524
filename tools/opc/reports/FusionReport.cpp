// Which ops one loop computes, and why others are alone.
// SPDX-License-Identifier: Apache-2.0
#include "FusionReport.h"

#include "FusionReasons.h"
#include "NumberText.h"
#include "PrintableText.h"
#include "TextParts.h"
#include "TextTable.h"

#include <set>

namespace opc::cli {

namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string reasonsText(const std::vector<FusionReason> &reasons) {
  return joined(reasons, ", ", [](FusionReason r) { return std::string(fusionReasonName(r)); });
}

/// What the words that were used mean.
std::string legendOf(const std::set<FusionReason> &used, size_t width) {
  Rows rows;
  for (const FusionReasonText &text : kFusionReasons)
    if (used.count(text.reason)) rows.push_back({text.name, text.doc});
  return rows.empty() ? "" : "\n" + textTable(rows, width);
}

std::string inParts(const FusionFacts &fusion) {
  size_t ops = 0;
  for (const FusionFacts::Parts &p : fusion.parts) ops += p.ops.size();
  return ops ? countText(ops, "op") + " in parts of the batch; " : "";
}

std::string ownText(const FusionFacts &fusion, size_t width, std::set<FusionReason> *used) {
  int64_t saved = 0;
  size_t inRegions = 0;
  for (const FusionFacts::Region &r : fusion.regions) {
    saved += r.bytesSaved;
    inRegions += r.ops.size();
  }
  std::string text = countText(fusion.regions.size(), "region") + " of " + countText(inRegions, "op") +
                     ", which save " + bytesText(static_cast<uint64_t>(saved)) + " of traffic; " + inParts(fusion) +
                     countText(fusion.alone.size(), "op") + " alone\n";
  Rows rows = {{"REGION", "MOVES", "SAVES", "CODE", "OPS"}};
  for (size_t i = 0; i < fusion.regions.size(); ++i) {
    const FusionFacts::Region &r = fusion.regions[i];
    rows.push_back({std::to_string(i), bytesText(static_cast<uint64_t>(r.bytesMoved)),
                    bytesText(static_cast<uint64_t>(r.bytesSaved)),
                    r.withoutCode.empty() ? "yes" : "no: " + printableName(r.withoutCode),
                    joined(r.ops, " ", [](const std::string &op) { return printableName(op); })});
  }
  if (rows.size() > 1) text += "\n" + textTable(rows, width);
  rows = {{"IN PARTS", "PARTS", "SAVES", "OPS"}};
  for (const FusionFacts::Parts &p : fusion.parts)
    rows.push_back({printableName(p.op), std::to_string(p.parts), bytesText(static_cast<uint64_t>(p.bytesSaved)),
                    joined(p.ops, " ", [](const std::string &op) { return printableName(op); })});
  if (rows.size() > 1) text += "\n" + textTable(rows, width);
  rows = {{"ALONE", "TYPE", "WHY"}};
  for (const FusionFacts::Alone &op : fusion.alone) {
    rows.push_back({printableName(op.op), op.type, reasonsText(op.reasons)});
    used->insert(op.reasons.begin(), op.reasons.end());
  }
  if (rows.size() > 1) text += "\n" + textTable(rows, width);
  rows = {{"BOUNDARY FROM", "TO", "WHY"}};
  for (const FusionFacts::Boundary &b : fusion.boundaries) {
    rows.push_back({printableName(b.from), printableName(b.to), fusionReasonName(b.reason)});
    used->insert(b.reason);
  }
  if (rows.size() > 1) text += "\n" + textTable(rows, width);
  for (const FusionFacts::Graph &graph : fusion.graphs)
    text +=
        "\nIn the " + graph.attribute + " of " + printableName(graph.op) + ": " + ownText(*graph.facts, width, used);
  return text;
}

} // namespace

std::string fusionText(const FusionFacts &fusion, size_t width) {
  std::set<FusionReason> used;
  const std::string text = ownText(fusion, width, &used);
  return text + legendOf(used, width);
}

Json fusionJson(const FusionFacts &fusion) {
  Json regions = Json::array(), alone = Json::array(), boundaries = Json::array();
  for (const FusionFacts::Region &r : fusion.regions) {
    regions.push_back({{"ops", r.ops},
                       {"bytes_moved", r.bytesMoved},
                       {"bytes_saved", r.bytesSaved},
                       {"code", r.withoutCode.empty()}});
    if (!r.withoutCode.empty()) regions.back()["why_no_code"] = r.withoutCode;
  }
  for (const FusionFacts::Alone &op : fusion.alone) {
    Json reasons = Json::array();
    for (FusionReason r : op.reasons) reasons.push_back(fusionReasonName(r));
    alone.push_back({{"op", op.op}, {"type", op.type}, {"reasons", std::move(reasons)}});
  }
  for (const FusionFacts::Boundary &b : fusion.boundaries)
    boundaries.push_back(
        {{"from", b.from}, {"to", b.to}, {"tensor", b.tensor}, {"reason", fusionReasonName(b.reason)}});
  Json parts = Json::array();
  for (const FusionFacts::Parts &p : fusion.parts)
    parts.push_back({{"op", p.op}, {"parts", p.parts}, {"bytes_saved", p.bytesSaved}, {"ops", p.ops}});
  Json graphs = Json::array();
  for (const FusionFacts::Graph &graph : fusion.graphs)
    graphs.push_back({{"op", graph.op}, {"graph", graph.attribute}, {"fusion", fusionJson(*graph.facts)}});
  return {{"regions", std::move(regions)},
          {"parts", std::move(parts)},
          {"alone", std::move(alone)},
          {"boundaries", std::move(boundaries)},
          {"graphs", std::move(graphs)}};
}

} // namespace opc::cli
