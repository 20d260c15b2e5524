// ONNX's ops with graphs in their attributes, resolved while importing.
// SPDX-License-Identifier: Apache-2.0
#include "ControlOp.h"
#include "OnnxConverters.h"
#include "OnnxLimits.h"

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

/// `what` must be one truth value.
void checkCondition(const Conversion &c, const Term &t, const std::string &what) {
  const bool isTensor = areTensors({t});
  if (isTensor && t->type() == kBool && t->shape().elem_cnt() == 1) return;
  c.invalid(what + " is " + (isTensor ? t->desc.toString() : "no tensor") + ", and must be bool of one element",
            "Cast makes truth values of numbers, ReduceMax and ReduceMin one of several");
}

std::string resultText(const Conversion &c, const Term &t) {
  return !areTensors({t}) ? "no tensor" : c.draft.bounded(t) ? t->desc.toString() + " at most" : t->desc.toString();
}

/// Why two branches cannot be graphs of one op; empty where they can.
std::string differenceOf(const Conversion &c, const std::vector<Term> &yes, const std::vector<Term> &no) {
  if (yes.size() != no.size())
    return "then_branch has " + std::to_string(yes.size()) + " results and else_branch " + std::to_string(no.size());
  for (size_t k = 0; k < yes.size(); ++k) {
    const bool fits = areTensors({yes[k], no[k]}) && !areBounded(c, {yes[k], no[k]});
    if (fits && yes[k]->desc == no[k]->desc) continue;
    const bool hasName = static_cast<int>(k) < c.node.output_size() && !c.node.output(static_cast<int>(k)).empty();
    return "result " + std::to_string(k) + (hasName ? " ('" + c.node.output(static_cast<int>(k)) + "')" : "") + " is " +
           resultText(c, yes[k]) + " of then_branch and " + resultText(c, no[k]) + " of else_branch";
  }
  return "";
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
  checkCondition(c, c.in(0), c.inputText(0));
  if (c.in(0)->value) {
    const bool isThen = c.knownInt(0) != 0;
    c.draft.noteBranch(isThen);
    return giveAll(c, c.inliner().inlined(body(c, isThen ? "then_branch" : "else_branch"), {}));
  }
  // Of a condition of the run the branches are graphs of an op, where they fit and their results are of one type.
  std::optional<std::vector<Term>> yes, no;
  std::string noThen, noElse, difference = "a branch";
  const size_t first = c.draft.mark();
  try {
    yes = c.inliner().tried(body(c, "then_branch"), &noThen), no = c.inliner().tried(body(c, "else_branch"), &noElse);
    if (yes && no) difference = differenceOf(c, *yes, *no);
  } catch (const Undecided &u) {
    difference = "a branch needs " + u.what + " to be known";
  }
  if (!noThen.empty() && !noElse.empty())
    c.invalid("neither of its branches fits: then_branch: " + noThen + "; else_branch: " + noElse);
  if (!noThen.empty() || !noElse.empty())
    difference = std::string("its ") + (noThen.empty() ? "else" : "then") + "_branch does not fit here (" +
                 (noThen.empty() ? noElse : noThen) + ")";
  if (!difference.empty()) (void)c.knownInts(c.in(0), "its condition, as " + difference + ",");
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
  std::optional<int64_t> length; // of sequences and rows, at most; nothing: the run knows how many turns there are
  bool isExact = true;           // as many turns as that, if the graph's condition never ends them
  bool takesTurn = true;         // the graph's first two inputs are the turn and the condition
};

int64_t turnsOf(Conversion &c, const LoopInOp &loop) {
  return c.knownInts(loop.turns, "the number of its turns").at(0);
}

/// What a turn makes of parameters, the condition first; nothing, with the reason, where it cannot be a graph of an op.
std::optional<std::vector<Term>> turnInOp(Conversion &c, const Graph &graph, const LoopInOp &loop,
                                          std::vector<Term> *parameters, std::string *fault) {
  if (!areTensors(loop.state)) return *fault = "a state of it is no tensor", std::nullopt;
  const size_t states = loop.state.size();
  const Term turn = c.draft.parameter({Shape(), kInt64});
  std::vector<Term> inputs;
  *parameters = {turn};
  if (loop.takesTurn) inputs = {turn, c.scalar(kBool, 1)};
  for (const Term &t : loop.state) parameters->push_back(c.draft.parameter(t->desc));
  for (const Term &t : loop.sequences)
    parameters->push_back(c.draft.parameter({Shape(DimVector(t->shape().begin() + 1, t->shape().end())), t->type()}));
  inputs.insert(inputs.end(), parameters->begin() + 1, parameters->end());
  auto results = c.inliner().triedInOp(graph, inputs, fault);
  if (!results) return std::nullopt;
  if (loop.takesTurn && !results->empty()) {
    checkCondition(c, results->front(), "the condition of its body");
    results->front() = c.reshape(results->front(), {});
  } else {
    results->insert(results->begin(), c.scalar(kBool, 1));
  }
  if (results->size() < 1 + states + loop.rows)
    c.invalid("its body has " + std::to_string(results->size()) + " outputs");
  results->resize(1 + states + loop.rows);
  if (!areTensors(*results)) return *fault = "its body makes what is no tensor", std::nullopt;
  for (size_t k = 0; k < states; ++k)
    if ((*results)[1 + k]->desc != loop.state[k]->desc)
      return *fault = "state " + std::to_string(k) + " of it is " + loop.state[k]->desc.toString() +
                      " before a turn and " + (*results)[1 + k]->desc.toString() + " after it",
             std::nullopt;
  return results;
}

constexpr int64_t kMostRoom = int64_t{1} << 30; // bytes of rows of which the run decides how many there are

/// The tensor of as many rows as there may be turns.
Shape rowsOf(const Conversion &c, const Term &row, int64_t length, bool isOpen) {
  DimVector dims = row->shape().dim_vec();
  dims.insert(dims.begin(), length);
  const auto bytes = tensorBytes({Shape(dims), row->type()});
  if (isOpen && (!bytes || *bytes > kMostRoom))
    c.unsupported(
        "it may collect " + std::to_string(length) + " rows of " + row->desc.toString() +
            ", and room for as many as the run decides is at most 1 GiB",
        "a loop whose rows are as many as the run makes turns needs a small number of turns at most (input 0, M)");
  return Shape(dims);
}

/// Its results, states before rows; nothing, with the reason, where it cannot be one.
std::optional<std::vector<Term>> loopInOp(Conversion &c, const Graph &graph, const LoopInOp &loop, std::string *fault) {
  const size_t first = c.draft.mark(), states = loop.state.size();
  std::vector<Term> parameters;
  auto results = turnInOp(c, graph, loop, &parameters, fault);
  if (!results) return std::nullopt;
  const std::optional<StoredTensor> &goesOn = results->front()->value;
  const bool isEndless = goesOn && goesOn->bytes[0];
  if (goesOn) c.draft.rely(results->front());
  if (isEndless && loop.turns->value && turnsOf(c, loop) > kMostTurnsInOp)
    c.unsupported("a loop of more than " + std::to_string(kMostTurnsInOp) + " turns, which no condition ends");
  if (loop.rows && !loop.length)
    return *fault = "it collects as many rows as the run makes turns, and nothing says how many they are at most",
           std::nullopt;
  const bool isOpen = loop.rows && !(isEndless && loop.isExact); // rows are as many as turns are counted
  auto after = static_cast<int64_t>(1 + states);
  if (isOpen) {
    const Term counted = c.draft.parameter({Shape({1}), kInt64});
    parameters.insert(parameters.begin() + after, counted);
    results->insert(results->begin() + after, c.op("broadcast_add", {counted, c.constant({1}, Shape({1}))}));
    ++after;
  }
  const size_t own = parameters.size();
  c.draft.addCaptures(first, *results, &parameters);
  if (areBounded(c, parameters) || areBounded(c, *results))
    return *fault = "it reads or makes a tensor of which only the run knows how much there is", std::nullopt;
  std::vector<Term> operands{loop.turns, loop.condition};
  operands.insert(operands.end(), loop.state.begin(), loop.state.end());
  if (isOpen) operands.push_back(c.constant({0}, Shape({1})));
  operands.insert(operands.end(), loop.sequences.begin(), loop.sequences.end());
  operands.insert(operands.end(), parameters.begin() + static_cast<int64_t>(own), parameters.end());
  const std::vector<Term> rows(results->begin() + after, results->end());
  std::vector<Shape> shapes;
  for (const Term &t : rows) shapes.push_back(rowsOf(c, t, *loop.length, isOpen));
  Attrs attrs{{"graph", c.draft.graphOf(first, parameters, *results)},
              {"states", after - 1},
              {"sequences", static_cast<int64_t>(loop.sequences.size())},
              {"row_dtypes", typesOf(rows)},
              {"row_shapes", shapes}};
  if (isOpen) attrs["partial"] = true;
  if (loop.length && !loop.turns->value && rows.empty()) attrs["most"] = *loop.length;
  auto made =
      c.ops(kLoopType, operands, attrs, {{"out", static_cast<int32_t>(after - 1) + static_cast<int32_t>(rows.size())}});
  if (!isOpen) return made;
  const Term count = made[states];
  made.erase(made.begin() + static_cast<int64_t>(states));
  for (size_t k = states; k < made.size(); ++k) c.draft.bind({made[k], count, 0});
  return made;
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
  if (loop.condition->value) c.draft.rely(loop.condition);
  loop.isExact = loop.turns->value && loop.condition->value && loop.condition->value->bytes[0];
  if (c.has(0) && loop.turns->value) loop.length = std::max<int64_t>(c.knownInts(0).at(0), 0);
  if (const double most = intervalOf(&c.draft, loop.turns).most; most < kMostTurnsInOp && !loop.length)
    loop.length = std::max<int64_t>(static_cast<int64_t>(most), 0);
  return loopInOp(c, graph, loop, fault);
}

/// What turns that are not made would have collected: nothing, of the shape that a row has.
std::vector<Term> noRows(Conversion &c, const Graph &graph, const std::vector<Term> &inputs, size_t first,
                         size_t rows) {
  std::string fault;
  const auto results = c.inliner().triedInOp(graph, inputs, &fault);
  const std::string why = "it makes no turn, and what it would collect has no shape that is known: ";
  if (!results) c.unsupported(why + fault, "a value that the import knows is given by --const");
  std::vector<Term> made;
  for (size_t k = first; k < first + rows && k < results->size(); ++k) {
    if (!areTensors({(*results)[k]}) || areBounded(c, {(*results)[k]}))
      c.unsupported(why + "output " + std::to_string(k) + " of its body is no tensor of a known size");
    made.push_back((*results)[k]);
  }
  if (made.size() < rows) c.invalid("its body has " + std::to_string(results->size()) + " outputs");
  return made;
}

/// `row` with an axis of no elements.
Term withoutRows(Conversion &c, const Term &row, int64_t axis) {
  DimVector dims = row->shape().dim_vec();
  dims.insert(dims.begin() + axis, 0);
  return c.constant(row->type(), Shape(dims), {});
}

void convertLoop(Conversion &c) {
  const Graph &graph = body(c, "body");
  std::vector<Term> state;
  for (size_t k = 2; k < c.inputCount(); ++k) state.push_back(c.any(k));
  const int scans = c.node.output_size() - static_cast<int>(state.size());
  std::vector<std::vector<Term>> scanned(static_cast<size_t>(std::max(scans, 0)));
  std::string fault;
  if (c.has(0)) c.checkType(0, {kInt64});
  if (c.has(0) && c.in(0)->shape().elem_cnt() != 1)
    c.invalid(c.inputText(0) + " is " + c.in(0)->desc.toString() + ", and must be one number");
  if (c.has(1)) checkCondition(c, c.in(1), c.inputText(1));
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
    checkCondition(c, results[0], "the condition of its body");
    if (turn == 0 && !results[0]->value)
      if (auto whole = loopNodeInOp(c, graph, state, scanned.size(), &fault)) return giveAll(c, *whole);
    for (size_t k = 0; k < scanned.size(); ++k) scanned[k].push_back(results[1 + state.size() + k]);
    state.assign(results.begin() + 1, results.begin() + 1 + static_cast<int64_t>(state.size()));
    goesOn = c.knownInts(results[0], "the condition of its body" +
                                         (fault.empty() ? "" : ", as it cannot be an op with a graph (" + fault + "),"))
                 .at(0) != 0;
  }
  for (size_t k = 0; k < state.size(); ++k) c.out(static_cast<int>(k), state[k]);
  if (turn == 0 && !scanned.empty()) {
    std::vector<Term> inputs{c.draft.parameter({Shape(), kInt64}), c.scalar(kBool, 1)};
    inputs.insert(inputs.end(), state.begin(), state.end());
    const auto none = noRows(c, graph, inputs, 1 + state.size(), scanned.size());
    for (size_t k = 0; k < none.size(); ++k) c.out(static_cast<int>(state.size() + k), withoutRows(c, none[k], 0));
    return;
  }
  for (size_t k = 0; k < scanned.size(); ++k) {
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

} // namespace

std::vector<Term> scanned(Conversion &c, const Graph &graph, std::vector<Term> state,
                          const std::vector<Term> &sequences, const std::vector<int64_t> &axes,
                          const std::vector<int64_t> &directions, const std::vector<int64_t> &outAxes,
                          const std::vector<int64_t> &outDirections) {
  if (sequences.empty()) c.invalid("it has nothing to go over");
  const int64_t length = sequences[0]->dim(c.axisOf(axes[0], sequences[0]->rank()));
  if (length > kMostTurns) return scanInOp(c, graph, state, sequences, axes, directions, outAxes, outDirections);
  if (length < 1) {
    std::vector<Term> inputs = state, all = state;
    for (size_t k = 0; k < sequences.size(); ++k) {
      DimVector dims = sequences[k]->shape().dim_vec();
      dims.erase(dims.begin() + c.axisOf(axes[k], sequences[k]->rank()));
      inputs.push_back(c.draft.parameter({Shape(dims), sequences[k]->type()}));
    }
    const auto none = noRows(c, graph, inputs, state.size(), outAxes.size());
    for (size_t k = 0; k < none.size(); ++k)
      all.push_back(withoutRows(c, none[k], c.axisOf(outAxes[k], none[k]->rank() + 1)));
    return all;
  }
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

namespace {

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
  if (sequences.empty()) c.invalid("it has nothing to go over");
  for (size_t k = skip; k < c.inputCount(); ++k)
    if (c.in(k)->rank() < 1 || c.in(k)->dim(0) < 1 || sequences[0]->rank() < 1 ||
        c.in(k)->dim(0) != sequences[0]->dim(0))
      c.invalid(c.inputText(k) + " is " + c.in(k)->desc.toString() +
                ", and all inputs have the same batch in front, of one at least");
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
  t->add(
      "Loop", convertLoop, "its body, once for each turn; loop, of the run or of more than 4,096 turns",
      "as many rows as the run makes turns, where nothing says how many they are at most; states whose shapes change from turn to turn of the run");
  t->add("Scan", convertScan, "its body, once for each turn; loop, of more than 4,096 turns", "sequence_lens");
}

} // namespace opc::onnx
