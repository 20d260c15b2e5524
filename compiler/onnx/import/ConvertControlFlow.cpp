// ONNX's ops with graphs in their attributes, resolved while importing.
// SPDX-License-Identifier: Apache-2.0
#include "ControlOp.h"
#include "OnnxConverters.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>

namespace opc::onnx {
namespace {

constexpr int64_t kMostTurns = 4096;                 // written out
constexpr int64_t kMostTurnsInOp = int64_t{1} << 32; // that nothing ends before

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

/// Whether all are tensors.
bool areTensors(const std::vector<Term> &terms) {
  return std::all_of(terms.begin(), terms.end(), [](const Term &t) { return t && t->kind == Operand::Kind::kTensor; });
}

/// Whether the run decides how much of one there is: no graph of an op takes or makes such.
bool areBounded(const Conversion &c, const std::vector<Term> &terms) {
  return std::any_of(terms.begin(), terms.end(), [&](const Term &t) { return c.draft.bounded(t) != nullptr; });
}

std::vector<DataType> typesOf(const std::vector<Term> &terms) {
  std::vector<DataType> types;
  for (const Term &t : terms) types.push_back(t->type());
  return types;
}

/// An `if` of the branches that the draft has from `first` on; nothing where it cannot be one, or spares nothing.
/// Results have the same types.
std::optional<std::vector<Term>> branchesInOp(Conversion &c, size_t first, const std::vector<Term> &yes,
                                              const std::vector<Term> &no) {
  if (!c.inliner().mayKeepBranches() || !(c.draft.hasOps(first, yes) || c.draft.hasOps(first, no))) return std::nullopt;
  std::vector<Term> inputs, operands{c.reshape(c.in(0), {})};
  c.draft.addCaptures(first, yes, &inputs);
  c.draft.addCaptures(first, no, &inputs);
  if (areBounded(c, inputs)) return std::nullopt;
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  std::vector<Shape> shapes;
  for (const Term &t : yes) shapes.push_back(t->shape());
  return c.ops(kIfType, operands,
               {{"then_graph", c.draft.graphOf(first, inputs, yes)},
                {"else_graph", c.draft.graphOf(first, inputs, no)},
                {"dtypes", typesOf(yes)},
                {"shapes", shapes}},
               {{"out", static_cast<int32_t>(yes.size())}});
}

void convertIf(Conversion &c) {
  if (c.in(0)->value)
    return giveAll(c, c.inliner().inlined(body(c, c.knownInt(0) ? "then_branch" : "else_branch"), {}));
  // Of a condition of the run the branches are graphs of an op, where they fit and their results are of one type.
  std::optional<std::vector<Term>> yes, no;
  std::string noThen, noElse;
  bool isOneType = false;
  const size_t first = c.draft.mark();
  try {
    yes = c.inliner().tried(body(c, "then_branch"), &noThen), no = c.inliner().tried(body(c, "else_branch"), &noElse);
    isOneType = yes && no && yes->size() == no->size() && areTensors(*yes) && areTensors(*no) && !areBounded(c, *yes) &&
                !areBounded(c, *no);
    for (size_t k = 0; isOneType && k < yes->size(); ++k) isOneType = (*yes)[k]->desc == (*no)[k]->desc;
  } catch (const Undecided &) {
    isOneType = false;
  }
  if (!noThen.empty() && !noElse.empty())
    c.invalid("neither of its branches fits: then_branch: " + noThen + "; else_branch: " + noElse);
  if (!noThen.empty() || !noElse.empty())
    (void)c.knownInts(c.in(0), std::string("its condition, as its ") + (noThen.empty() ? "else" : "then") +
                                   "_branch does not fit here (" + (noThen.empty() ? noElse : noThen) + "),");
  if (!isOneType) (void)c.knownInts(0); // its condition decides shapes
  if (const auto results = branchesInOp(c, first, *yes, *no)) return giveAll(c, *results);
  const Term condition = c.reshape(c.in(0), {});
  for (size_t k = 0; k < yes->size(); ++k) (*yes)[k] = c.op("where", {condition, (*yes)[k], (*no)[k]});
  giveAll(c, *yes);
}

/// A loop as an op: what it goes over, what it carries on.
struct LoopInOp {
  Term turns, condition; // i64 and bool of one element
  std::vector<Term> state, sequences;
  size_t rows = 0;
  std::optional<int64_t> length; // of sequences and rows; nothing: the run knows how many turns there are
  bool takesTurn = true;         // the graph's first two inputs are the turn and the condition
};

int64_t turnsOf(Conversion &c, const LoopInOp &loop) {
  return c.knownInts(loop.turns, "the number of its turns").at(0);
}

/// Its results, states before rows; nothing, with the reason, where it cannot be one.
std::optional<std::vector<Term>> loopInOp(Conversion &c, const Graph &graph, const LoopInOp &loop, std::string *fault) {
  if (!areTensors(loop.state)) return *fault = "a state of it is no tensor", std::nullopt;
  const size_t first = c.draft.mark(), states = loop.state.size();
  const Term turn = c.draft.parameter({Shape(), kInt64});
  std::vector<Term> parameters{turn}, inputs;
  if (loop.takesTurn) inputs = {turn, c.scalar(kBool, 1)};
  for (const Term &t : loop.state) parameters.push_back(c.draft.parameter(t->desc));
  for (const Term &t : loop.sequences)
    parameters.push_back(c.draft.parameter({Shape(DimVector(t->shape().begin() + 1, t->shape().end())), t->type()}));
  inputs.insert(inputs.end(), parameters.begin() + 1, parameters.end());
  auto results = c.inliner().triedInOp(graph, inputs, fault);
  if (!results) return std::nullopt;
  if (loop.takesTurn && !results->empty() && areTensors({results->front()}) && results->front()->type() == kBool &&
      results->front()->shape().elem_cnt() == 1)
    results->front() = c.reshape(results->front(), {});
  else if (loop.takesTurn)
    return *fault = "its body makes no condition of one element", std::nullopt;
  else
    results->insert(results->begin(), c.scalar(kBool, 1));
  if (results->size() < 1 + states + loop.rows)
    c.invalid("its body has " + std::to_string(results->size()) + " outputs");
  results->resize(1 + states + loop.rows);
  if (!areTensors(*results)) return *fault = "its body makes what is no tensor", std::nullopt;
  for (size_t k = 0; k < states; ++k)
    if ((*results)[1 + k]->desc != loop.state[k]->desc)
      return *fault = "state " + std::to_string(k) + " of it is " + loop.state[k]->desc.toString() +
                      " before a turn and " + (*results)[1 + k]->desc.toString() + " after it",
             std::nullopt;
  const std::optional<StoredTensor> &goesOn = results->front()->value;
  if (goesOn && goesOn->bytes[0] && loop.turns->value && turnsOf(c, loop) > kMostTurnsInOp)
    c.unsupported("a loop of more than " + std::to_string(kMostTurnsInOp) + " turns, which no condition ends");
  if (loop.rows && (!loop.length || !goesOn || !goesOn->bytes[0]))
    return *fault = "it collects as many rows as the run makes turns", std::nullopt;
  c.draft.addCaptures(first, *results, &parameters);
  if (areBounded(c, parameters) || areBounded(c, *results))
    return *fault = "it reads or makes a tensor of which only the run knows how much there is", std::nullopt;
  std::vector<Term> operands{loop.turns, loop.condition};
  operands.insert(operands.end(), loop.state.begin(), loop.state.end());
  operands.insert(operands.end(), loop.sequences.begin(), loop.sequences.end());
  operands.insert(operands.end(), parameters.begin() + static_cast<int64_t>(1 + states + loop.sequences.size()),
                  parameters.end());
  const std::vector<Term> rows(results->begin() + static_cast<int64_t>(1 + states), results->end());
  std::vector<Shape> shapes;
  for (const Term &t : rows) {
    DimVector dims = t->shape().dim_vec();
    dims.insert(dims.begin(), *loop.length);
    shapes.push_back(Shape(dims));
  }
  return c.ops(kLoopType, operands,
               {{"graph", c.draft.graphOf(first, parameters, *results)},
                {"states", static_cast<int64_t>(states)},
                {"sequences", static_cast<int64_t>(loop.sequences.size())},
                {"row_dtypes", typesOf(rows)},
                {"row_shapes", shapes}},
               {{"out", static_cast<int32_t>(states + rows.size())}});
}

/// The op of a Loop node; nothing where all is written out, or where `fault` has a reason.
std::optional<std::vector<Term>> loopNodeInOp(Conversion &c, const Graph &graph, const std::vector<Term> &state,
                                              size_t rows, std::string *fault) {
  if (!c.inliner().mayKeepTurns()) {
    *fault = "several devices, GPUs and sizes in a range have it written out";
    return std::nullopt;
  }
  if (state.empty() && rows == 0) return std::nullopt;
  LoopInOp loop;
  loop.turns = c.has(0) ? c.reshape(c.in(0), {}) : c.constant({INT64_MAX}, Shape());
  loop.condition = c.has(1) ? c.reshape(c.in(1), {}) : c.scalar(kBool, 1);
  loop.state = state;
  loop.rows = rows;
  const bool begins = loop.condition->value && loop.condition->value->bytes[0];
  if (c.has(0) && loop.turns->value && begins) loop.length = c.knownInts(0).at(0);
  return loopInOp(c, graph, loop, fault);
}

void convertLoop(Conversion &c) {
  const Graph &graph = body(c, "body");
  std::vector<Term> state;
  for (size_t k = 2; k < c.inputCount(); ++k) state.push_back(c.any(k));
  const int scans = c.node.output_size() - static_cast<int>(state.size());
  std::vector<std::vector<Term>> scanned(static_cast<size_t>(std::max(scans, 0)));
  std::string fault;
  for (size_t k : {0, 1})
    if (c.has(k) && c.in(k)->value) (void)c.knownInt(k); // one element
  // Turns that the import knows are written out, up to a limit: each is computed with what is known in it.
  const bool isOfRun = (c.has(0) && !c.in(0)->value) || (c.has(1) && !c.in(1)->value);
  const bool isLong = !isOfRun && c.has(0) && c.knownInts(0).at(0) > kMostTurns;
  if (isOfRun || isLong)
    if (auto results = loopNodeInOp(c, graph, state, scanned.size(), &fault)) return giveAll(c, *results);
  const std::string why = fault.empty() ? "" : ", as it cannot be an op with a graph (" + fault + "),";
  int64_t turns = c.has(0) ? c.knownInts(c.in(0), "the number of its turns" + why).at(0) : kMostTurns + 1;
  bool goesOn = !c.has(1) || c.knownInts(c.in(1), "its condition" + why).at(0) != 0;
  int64_t turn = 0;
  for (; turn < turns && goesOn; ++turn) {
    if (turn >= kMostTurns) c.unsupported("a loop of more than " + std::to_string(kMostTurns) + " turns" + why);
    std::vector<Term> inputs{c.constant({turn}, Shape()), c.scalar(kBool, 1)};
    inputs.insert(inputs.end(), state.begin(), state.end());
    auto results = c.inliner().inlined(graph, inputs);
    if (results.size() < 1 + state.size() + scanned.size())
      c.invalid("its body has " + std::to_string(results.size()) + " outputs");
    if (turn == 0 && areTensors({results[0]}) && !results[0]->value)
      if (auto whole = loopNodeInOp(c, graph, state, scanned.size(), &fault)) return giveAll(c, *whole);
    for (size_t k = 0; k < scanned.size(); ++k) scanned[k].push_back(results[1 + state.size() + k]);
    state.assign(results.begin() + 1, results.begin() + 1 + static_cast<int64_t>(state.size()));
    goesOn = c.knownInts(results[0], "the condition of its body" +
                                         (fault.empty() ? "" : ", as it cannot be an op with a graph (" + fault + "),"))
                 .at(0) != 0;
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

/// `t` with axis `from` first, or with the first one at `to`.
Term withAxis(Conversion &c, const Term &t, int64_t from, int64_t to) {
  if (from == to) return t;
  std::vector<int64_t> perm(static_cast<size_t>(t->rank()));
  std::iota(perm.begin(), perm.end(), 0);
  perm.erase(perm.begin() + from);
  perm.insert(perm.begin() + to, from);
  return c.transpose(t, perm);
}

Term flipped(Conversion &c, const Term &t, int64_t direction) {
  return direction ? c.op("flip", {t}, {{"dims", std::vector<int64_t>{0}}}) : t;
}

/// One scan of many turns: over the first axis, forwards.
std::vector<Term> scanInOp(Conversion &c, const Graph &graph, const std::vector<Term> &state,
                           const std::vector<Term> &sequences, const std::vector<int64_t> &axes,
                           const std::vector<int64_t> &directions, const std::vector<int64_t> &outAxes,
                           const std::vector<int64_t> &outDirections) {
  LoopInOp loop;
  loop.state = state;
  loop.rows = outAxes.size();
  loop.takesTurn = false;
  for (size_t k = 0; k < sequences.size(); ++k) {
    const int64_t axis = c.axisOf(axes[k], sequences[k]->rank());
    if (loop.length && sequences[k]->dim(axis) != *loop.length)
      c.invalid("its sequences have the lengths " + std::to_string(*loop.length) + " and " +
                std::to_string(sequences[k]->dim(axis)));
    loop.length = sequences[k]->dim(axis);
    loop.sequences.push_back(flipped(c, withAxis(c, sequences[k], axis, 0), directions[k]));
  }
  loop.turns = c.constant({*loop.length}, Shape());
  loop.condition = c.scalar(kBool, 1);
  std::string fault = "several devices, GPUs and sizes in a range have it written out";
  auto results = c.inliner().mayKeepTurns() ? loopInOp(c, graph, loop, &fault) : std::nullopt;
  if (!results)
    c.unsupported("a scan of more than " + std::to_string(kMostTurns) + " turns, as it cannot be an op with a graph (" +
                  fault + ")");
  for (size_t k = 0; k < outAxes.size(); ++k) {
    Term &rows = (*results)[state.size() + k];
    rows = flipped(c, rows, outDirections[k]);
    rows = withAxis(c, rows, 0, c.axisOf(outAxes[k], rows->rank()));
  }
  return *results;
}

/// One scan over sequences that lie along `axes`.
std::vector<Term> scanned(Conversion &c, const Graph &graph, std::vector<Term> state,
                          const std::vector<Term> &sequences, const std::vector<int64_t> &axes,
                          const std::vector<int64_t> &directions, const std::vector<int64_t> &outAxes,
                          const std::vector<int64_t> &outDirections) {
  if (sequences.empty()) c.invalid("it has nothing to go over");
  const int64_t length = sequences[0]->dim(c.axisOf(axes[0], sequences[0]->rank()));
  if (length > kMostTurns) return scanInOp(c, graph, state, sequences, axes, directions, outAxes, outDirections);
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
  t->add("If", convertIf, "the branch; if, or where, when the condition is of the run",
         "conditions of the run that decide shapes");
  t->add("Loop", convertLoop, "its body, once for each turn; loop, of the run or of more than 4,096 turns",
         "as many rows as the run makes turns, states whose shapes change from turn to turn of the run");
  t->add("Scan", convertScan, "its body, once for each turn; loop, of more than 4,096 turns", "sequence_lens");
}

} // namespace opc::onnx
