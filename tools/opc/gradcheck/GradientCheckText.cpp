// The result of a gradient check as a table for people, and as the document of --json.
// SPDX-License-Identifier: Apache-2.0
#include "GradientCheck.h"

#include "NumberText.h"
#include "TensorCompare.h"
#include "TextParts.h"
#include "TextTable.h"

#include <algorithm>

namespace opc::cli {

std::string gradientCheckText(const GradientCheck &check) {
  size_t nameWidth = 4, typeWidth = 4;
  for (const TensorCheck &t : check.tensors) {
    nameWidth = std::max(nameWidth, t.name.size());
    typeWidth = std::max(typeWidth, t.desc.toString().size());
  }
  std::string text;
  size_t bad = 0;
  for (const TensorCheck &t : check.tensors) {
    text += padded(t.name, nameWidth) + "  " + padded(t.desc.toString(), typeWidth) + "  ";
    if (!t.skipped.empty()) {
      text += "not checked: " + t.skipped + "\n";
      continue;
    }
    bad += !t.passed();
    text += t.passed() ? "ok     " : "WRONG  ";
    text += countText(t.checked) + " of " + countText(t.elements) + " elements";
    if (t.kinks) text += ", " + countText(t.kinks) + " more at kinks or edges";
    if (!t.passed()) text += ", " + countText(t.mismatches) + " wrong";
    if (t.worst >= 0)
      text += "; largest relative error " + roundedText(t.maxError, 3) + " at " + indexText(t.desc.shape(), t.worst);
    if (!t.passed())
      text += ": gradient " + roundedText(t.analytic, 9) + ", difference quotient " + roundedText(t.numeric, 9);
    text += "\n";
  }
  if (bad == 0) return text + "every gradient agrees with central differences in f64\n";
  text += counted(bad, "gradient") + (bad == 1 ? " is wrong\n" : " are wrong\n");
  if (check.unsearchedOps)
    text += "the op to blame is not looked for: the losses need " + countText(check.unsearchedOps, "op") +
            ", and at most " + countText(kMostSearchedOps) +
            " are tried one by one; an inner tensor as --loss needs fewer\n";
  for (const OpVerdict &o : check.ops) {
    if (o.passed && o.checked) continue;
    text += (o.passed ? "  not checked alone: op " : "  to blame: op ") + o.op + " (" + o.type + ")";
    if (o.range.known())
      text += "  " + o.range.file + ":" + std::to_string(o.range.line) + ":" + std::to_string(o.range.column);
    text += "\n    " + o.detail + "\n";
  }
  return text;
}

Json gradientCheckJson(const GradientCheck &check, const std::string &graph) {
  Json tensors = Json::array(), ops = Json::array();
  for (const TensorCheck &t : check.tensors) {
    Json j = {{"name", t.name},
              {"dtype", dtypeJson(t.desc.data_type())},
              {"shape", shapeJson(t.desc.shape())},
              {"passed", t.passed()},
              {"elements", t.elements},
              {"checked", t.checked},
              {"kinks", t.kinks},
              {"mismatches", t.mismatches},
              {"max_rel_error", realJson(t.maxError)}};
    if (!t.skipped.empty()) j["skipped"] = t.skipped;
    if (t.worst >= 0)
      j["worst"] = {{"index", Json::parse(indexText(t.desc.shape(), t.worst))},
                    {"gradient", realJson(t.analytic)},
                    {"difference_quotient", realJson(t.numeric)}};
    tensors.push_back(std::move(j));
  }
  for (const OpVerdict &o : check.ops)
    ops.push_back({{"op", o.op}, {"type", o.type}, {"checked", o.checked}, {"passed", o.passed}, {"detail", o.detail}});
  Json document = {{"schema", 1}, {"graph", graph}, {"passed", check.passed()}, {"tensors", std::move(tensors)}};
  if (!check.ops.empty()) document["ops"] = std::move(ops);
  if (check.unsearchedOps) document["unsearched_ops"] = check.unsearchedOps;
  return document;
}

} // namespace opc::cli
