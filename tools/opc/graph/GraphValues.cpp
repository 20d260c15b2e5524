// What the values of a run say about the graph that it compiles.
// SPDX-License-Identifier: Apache-2.0
#include "GraphValues.h"

#include "NumberText.h"
#include "TextParts.h"

#include <algorithm>

namespace opc::cli {

namespace {

bool isOpen(const GraphTensor &t) {
  return t.dtype == kInvalidDataType || std::any_of(t.shape.begin(), t.shape.end(), [](int64_t d) { return d < 0; });
}

} // namespace

bool hasOpenInputs(const GraphFacts &info) { return std::any_of(info.inputs.begin(), info.inputs.end(), isOpen); }

Status checkGraphInputs(const GraphFacts &info, const NamedValues &inputs,
                        const std::map<std::string, std::vector<int64_t>> &shapes, const ValueFlags &flags,
                        const std::vector<std::string> &command, const std::set<std::string> *fedElsewhere) {
  const std::vector<std::string> names = namesOf(info.inputs);
  std::vector<std::string> known = names;
  for (const GraphTensor &t : info.variables) known.push_back(t.name);
  for (const std::string &name : inputs.flagNames())
    if (std::find(known.begin(), known.end(), name) == known.end())
      return noSuchPort(name, names, known, inputs.flagOf(name) + " " + name + "=" + inputs.origin(name));
  if (!flags.fill.empty()) return Status::ok();
  std::vector<MissingValue> missing;
  bool anyOpen = false;
  for (const GraphTensor &t : info.inputs) {
    if (inputs.has(t.name) || (fedElsewhere && fedElsewhere->count(t.name))) continue;
    const bool open = isOpen(t) && !shapes.count(t.name);
    missing.push_back({t.name, typeText(t.dtype, t.shape), false, open});
    anyOpen |= open || fedElsewhere;
  }
  // Inputs with a known shape are reported later, together with variables.
  return anyOpen ? missingValues(missing, command, flags.program) : Status::ok();
}

Result<std::map<std::string, std::vector<int64_t>>> shapesOfOpenInputs(const GraphFacts &info,
                                                                       const NamedValues &inputs) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const GraphTensor &t : info.inputs) {
    if (!isOpen(t) || !inputs.has(t.name)) continue;
    Result<std::optional<Shape>> shape = inputs.shapeOf(t.name, t.dtype);
    if (!shape) return Status(shape.status()).withContext("reading input " + t.name);
    if (!*shape) continue;
    const DimVector &given = (*shape)->dim_vec();
    // The dimensions that the graph does give must agree; the rest is bound.
    bool fits = t.dtype == kInvalidDataType || given.size() == t.shape.dim_vec().size();
    for (size_t i = 0; fits && t.dtype != kInvalidDataType && i < given.size(); ++i)
      fits = t.shape.dim_vec()[i] < 0 || t.shape.dim_vec()[i] == given[i];
    if (!fits)
      return Status(StatusCode::kUsage, "OPC0704",
                    "input " + t.name + ": " + inputs.origin(t.name) + " has shape " + (*shape)->ToString() +
                        ", the graph wants " + t.shape.ToString() + ", where -1 is any");
    shapes[t.name] = given;
  }
  return shapes;
}

} // namespace opc::cli
