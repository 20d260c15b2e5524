// ONNX's ops with graphs in their attributes, resolved while importing.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

namespace opc::onnx {
namespace {

constexpr int64_t kMostTurns = 4096;

const Graph &body(const Conversion &c, const char *name) {
  const Attribute *a = c.attr(name, Attribute::GRAPH);
  if (!a) c.invalid(std::string("attribute '") + name + "' is missing");
  return a->g();
}

void giveAll(Conversion &c, const std::vector<Term> &results) {
  if (results.size() < static_cast<size_t>(c.node.output_size()))
    c.invalid("its graph has " + std::to_string(results.size()) + " outputs, the node " +
              std::to_string(c.node.output_size()));
  for (size_t k = 0; k < results.size(); ++k) c.out(static_cast<int>(k), results[k]);
}

void convertIf(Conversion &c) {
  if (c.in(0)->value)
    return giveAll(c, c.inliner().inlined(body(c, c.knownInt(0) ? "then_branch" : "else_branch"), {}));
  // Of a condition of the run both branches are computed, where they fit and their results are of one type.
  std::optional<std::vector<Term>> yes, no;
  std::string noThen, noElse;
  bool isOneType = false;
  try {
    yes = c.inliner().tried(body(c, "then_branch"), &noThen), no = c.inliner().tried(body(c, "else_branch"), &noElse);
    isOneType = yes && no && yes->size() == no->size();
    for (size_t k = 0; isOneType && k < yes->size(); ++k)
      isOneType = (*yes)[k]->kind == Operand::Kind::kTensor && (*no)[k]->kind == Operand::Kind::kTensor &&
                  (*yes)[k]->desc == (*no)[k]->desc;
  } catch (const Undecided &) {
    isOneType = false;
  }
  if (!noThen.empty() && !noElse.empty())
    c.invalid("neither of its branches fits: then_branch: " + noThen + "; else_branch: " + noElse);
  if (!noThen.empty() || !noElse.empty())
    (void)c.knownInts(c.in(0), std::string("its condition, as its ") + (noThen.empty() ? "else" : "then") +
                                   "_branch does not fit here (" + (noThen.empty() ? noElse : noThen) + "),");
  if (!isOneType) (void)c.knownInts(0); // its condition decides shapes
  const Term condition = c.reshape(c.in(0), {});
  for (size_t k = 0; k < yes->size(); ++k) (*yes)[k] = c.op("where", {condition, (*yes)[k], (*no)[k]});
  giveAll(c, *yes);
}

void convertLoop(Conversion &c) {
  const Graph &graph = body(c, "body");
  int64_t turns = c.has(0) ? c.knownInt(0) : kMostTurns + 1;
  bool goesOn = !c.has(1) || c.knownInt(1) != 0;
  std::vector<Term> state;
  for (size_t k = 2; k < c.inputCount(); ++k) state.push_back(c.any(k));
  const int scans = c.node.output_size() - static_cast<int>(state.size());
  std::vector<std::vector<Term>> scanned(static_cast<size_t>(std::max(scans, 0)));
  int64_t turn = 0;
  for (; turn < turns && goesOn; ++turn) {
    if (turn >= kMostTurns) c.unsupported("a loop of more than " + std::to_string(kMostTurns) + " turns");
    std::vector<Term> inputs{c.constant({turn}, Shape()), c.scalar(kBool, 1)};
    inputs.insert(inputs.end(), state.begin(), state.end());
    auto results = c.inliner().inlined(graph, inputs);
    if (results.size() < 1 + state.size() + scanned.size())
      c.invalid("its body has " + std::to_string(results.size()) + " outputs");
    for (size_t k = 0; k < scanned.size(); ++k) scanned[k].push_back(results[1 + state.size() + k]);
    state.assign(results.begin() + 1, results.begin() + 1 + static_cast<int64_t>(state.size()));
    goesOn = c.knownInts(results[0], "the condition of its body").at(0) != 0;
  }
  for (size_t k = 0; k < state.size(); ++k) c.out(static_cast<int>(k), state[k]);
  for (size_t k = 0; k < scanned.size(); ++k) {
    if (scanned[k].empty()) c.unsupported("what a loop without turns collects");
    std::vector<Term> rows;
    for (const Term &t : scanned[k]) {
      DimVector dims = t->shape().dim_vec();
      dims.insert(dims.begin(), 1);
      rows.push_back(c.reshape(t, dims));
    }
    c.out(static_cast<int>(state.size() + k), rows.size() == 1 ? rows[0] : c.op("cat", rows, {{"axis", int64_t{0}}}));
  }
}

/// One scan over sequences that lie along `axes`.
std::vector<Term> scanned(Conversion &c, const Graph &graph, std::vector<Term> state,
                          const std::vector<Term> &sequences, const std::vector<int64_t> &axes,
                          const std::vector<int64_t> &directions, const std::vector<int64_t> &outAxes,
                          const std::vector<int64_t> &outDirections) {
  if (sequences.empty()) c.invalid("it has nothing to go over");
  const int64_t length = sequences[0]->dim(c.axisOf(axes[0], sequences[0]->rank()));
  if (length > kMostTurns) c.unsupported("a scan of more than " + std::to_string(kMostTurns) + " turns");
  if (length < 1) c.unsupported("a scan without turns");
  std::vector<std::vector<Term>> collected(outAxes.size());
  const size_t states = state.size();
  for (int64_t turn = 0; turn < length; ++turn) {
    std::vector<Term> inputs = state;
    for (size_t k = 0; k < sequences.size(); ++k) {
      const int64_t axis = c.axisOf(axes[k], sequences[k]->rank()), at = directions[k] ? length - 1 - turn : turn;
      if (sequences[k]->dim(axis) != length)
        c.invalid("its sequences have the lengths " + std::to_string(length) + " and " +
                  std::to_string(sequences[k]->dim(axis)));
      DimVector dims = sequences[k]->shape().dim_vec();
      dims.erase(dims.begin() + axis);
      inputs.push_back(c.reshape(c.slice(sequences[k], axis, at, at + 1), dims));
    }
    const auto results = c.inliner().inlined(graph, inputs);
    if (results.size() < states + collected.size())
      c.invalid("its body has " + std::to_string(results.size()) + " outputs");
    state.assign(results.begin(), results.begin() + static_cast<int64_t>(states));
    for (size_t k = 0; k < collected.size(); ++k) {
      const Term &t = results[states + k];
      const int64_t axis = c.axisOf(outAxes[k], t->rank() + 1);
      DimVector dims = t->shape().dim_vec();
      dims.insert(dims.begin() + axis, 1);
      collected[k].insert(outDirections[k] ? collected[k].begin() : collected[k].end(), c.reshape(t, dims));
    }
  }
  std::vector<Term> all = state;
  for (size_t k = 0; k < collected.size(); ++k)
    all.push_back(collected[k].size() == 1
                      ? collected[k][0]
                      : c.op("cat", collected[k], {{"axis", c.axisOf(outAxes[k], collected[k][0]->rank())}}));
  return all;
}

void convertScan(Conversion &c) {
  const Graph &graph = body(c, "body");
  const size_t skip = c.version < 9 ? 1 : 0; // sequence_lens
  const auto over = static_cast<size_t>(c.required("num_scan_inputs"));
  const size_t count = c.inputCount() - std::min(skip, c.inputCount());
  if (over > count) c.invalid("num_scan_inputs is " + std::to_string(over));
  const size_t states = count - over;
  const auto outs = static_cast<size_t>(std::max<int64_t>(0, c.node.output_size() - static_cast<int64_t>(states)));
  const auto list = [&](const char *name, size_t n) {
    auto values = c.ints(name, std::vector<int64_t>(n, 0));
    if (values.size() != n)
      c.invalid(std::string("attribute '") + name + "' has " + std::to_string(values.size()) +
                " numbers, and must have " + std::to_string(n));
    return values;
  };
  std::vector<Term> state, sequences;
  for (size_t k = 0; k < count; ++k) (k < states ? state : sequences).push_back(c.in(k + skip));
  if (c.version >= 9)
    return giveAll(c, scanned(c, graph, state, sequences, list("scan_input_axes", over),
                              list("scan_input_directions", over), list("scan_output_axes", outs),
                              list("scan_output_directions", outs)));
  // Operator set 8: everything has a batch in front.
  if (c.has(0)) c.unsupported("lengths of the sequences (sequence_lens)");
  const auto directions = list("directions", over);
  const int64_t batch = sequences[0]->dim(0);
  std::vector<std::vector<Term>> rows(states + outs);
  const auto row = [&](const Term &t, int64_t b) {
    return c.reshape(c.slice(t, 0, b, b + 1), DimVector(t->shape().dim_vec().begin() + 1, t->shape().dim_vec().end()));
  };
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Term> own, each;
    for (const Term &t : state) own.push_back(row(t, b));
    for (const Term &t : sequences) each.push_back(row(t, b));
    const auto results = scanned(c, graph, own, each, std::vector<int64_t>(over, 0), directions,
                                 std::vector<int64_t>(outs, 0), std::vector<int64_t>(outs, 0));
    for (size_t k = 0; k < rows.size(); ++k) {
      DimVector dims = results[k]->shape().dim_vec();
      dims.insert(dims.begin(), 1);
      rows[k].push_back(c.reshape(results[k], dims));
    }
  }
  std::vector<Term> all;
  for (const auto &list : rows) all.push_back(list.size() == 1 ? list[0] : c.op("cat", list, {{"axis", int64_t{0}}}));
  giveAll(c, all);
}

} // namespace

void addControlFlow(ConverterTable *t) {
  t->add("If", convertIf, "the branch; where, when the condition is of the run",
         "conditions of the run that decide shapes");
  t->add("Loop", convertLoop, "its body, once for each turn",
         "counts and conditions of the run, more than 4,096 turns");
  t->add("Scan", convertScan, "its body, once for each turn", "more than 4,096 turns, sequence_lens");
}

} // namespace opc::onnx
