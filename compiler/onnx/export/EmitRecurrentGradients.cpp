// The gradients of recurrent layers as ONNX: products over all steps, and each step back written out.
// SPDX-License-Identifier: Apache-2.0
#include "EmitGates.h"
#include "OnnxEmitters.h"

namespace opc::onnx_export {
namespace {

constexpr int64_t kMostSteps = 256;

using Wires = std::vector<Wire>;

/// One direction, with the steps first and in the order in which they are computed.
class Direction {
public:
  Direction(Emission &e, int64_t gates, int64_t d, std::vector<Gate> functions)
      : e(e), functions_(std::move(functions)), clip_(e.f("clip")), isBatchFirst_(e.b("batch_first")), d_(d),
        isBack_(d == 1 || e.s("direction") == "reverse") {
    if (e.has("lengths")) lengths_ = e.indices("lengths");
    x = ordered(stepsFirst("x"));
    steps = x.dim(0), batch = x.dim(1), n = e.in("recurrence").dim(2), columns = gates * n;
    if (steps == 0 || steps > kMostSteps) e.refuse("no form of " + std::to_string(steps) + " steps");
    weight = e.reshape(e.slice(e.in("weight"), 0, d, d + 1), {columns, x.dim(2)});
    recurrence = e.reshape(e.slice(e.in("recurrence"), 0, d, d + 1), {columns, n});
    const Wire first = e.reshape(state("initial_h"), {1, batch, n}), y = output("y");
    before = steps == 1 ? first : e.concat({first, e.slice(y, 0, 0, steps - 1)}, 0);
    fromX = e.matmul(x, e.transpose(weight, {1, 0}));
    fromState = e.matmul(before, e.transpose(recurrence, {1, 0}));
    if (e.has("bias")) {
      const Wire bias = e.reshape(e.slice(e.in("bias"), 0, d, d + 1), {2 * columns});
      fromX = e.add(fromX, e.slice(bias, 0, 0, columns));
      stateBias = e.slice(bias, 0, columns, 2 * columns);
      fromState = e.add(fromState, stateBias);
    }
    if (e.has("dy")) dy_ = output("dy");
    dh = state("dy_h");
    isSeen_.resize(static_cast<size_t>(steps));
    for (int64_t s = 0; s < steps && lengths_.rank() == 1; ++s)
      isSeen_[static_cast<size_t>(s)] =
          e.test("Greater", e.reshape(lengths_, {batch, 1}), e.integers({s}, Shape({1, 1})));
  }

  Emission &e;
  Wire x, weight, recurrence, before, fromX, fromState, stateBias, dh; // stateBias without a name: there is none
  int64_t steps = 0, batch = 0, n = 0, columns = 0;

  GateValue gate(size_t function, const Wire &sum) const { return gateValue(e, functions_.at(function), clip_, sum); }
  Wire part(const Wire &all, int64_t gate) const { return e.slice(all, all.rank() - 1, gate * n, (gate + 1) * n); }
  Wire rows(const Wire &matrix, int64_t begin, int64_t end) const { return e.slice(matrix, 0, begin * n, end * n); }
  Wire at(const Wire &all, int64_t s) const { return e.reshape(e.slice(all, 0, s, s + 1), {batch, all.dim(2)}); }
  /// What has come to the state that step s made.
  Wire arrived(int64_t s) const { return dy_.name.empty() ? dh : e.add(dh, at(dy_, s)); }
  /// `made` where a sequence has step s, `otherwise` where it has ended.
  Wire where(int64_t s, const Wire &made, const Wire &otherwise) const {
    const Wire &seen = isSeen_[static_cast<size_t>(s)];
    return seen.name.empty() ? made : e.select(seen, made, otherwise);
  }
  Wire orNothing(int64_t s, const Wire &made) const { return where(s, made, e.number(made, 0)); }
  /// Steps, the last of which came first, as [steps, batch, ...].
  Wire stacked(const Wires &back) const {
    Wires all;
    for (size_t k = back.size(); k-- > 0;) all.push_back(e.reshape(back[k], {1, batch, back[k].dim(-1)}));
    return e.concat(all, 0);
  }
  Wire flat(const Wire &all) const { return e.reshape(all, {steps * batch, all.dim(2)}); }
  /// Over all rows.
  Wire byMatrix(const Wire &gradients, const Wire &read) const {
    return e.matmul(e.transpose(flat(gradients), {1, 0}), flat(read));
  }
  Wire state(const char *arg) const {
    if (!e.has(arg)) return e.filled(x.type, Shape({batch, n}), 0);
    return e.reshape(e.slice(e.in(arg), isBatchFirst_ ? 1 : 0, d_, d_ + 1), {batch, n});
  }
  /// The order of times, back: the other way round up to each sequence's end.
  Wire ordered(const Wire &all) const {
    if (!isBack_) return all;
    if (lengths_.name.empty()) return e.slice(all, 0, all.dim(0) - 1, -1, -1);
    return e.node("ReverseSequence", {all, lengths_}, {{"time_axis", 0}, {"batch_axis", 1}}, all.type, all.shape);
  }

private:
  Wire stepsFirst(const char *arg) const {
    const Wire all = e.in(arg);
    return isBatchFirst_ ? e.transpose(all, {1, 0, 2}) : all;
  }
  Wire output(const char *arg) const {
    const Wire all = e.in(arg), own = e.slice(all, isBatchFirst_ ? 2 : 1, d_, d_ + 1);
    const Wire flatOwn =
        isBatchFirst_ ? e.transpose(e.reshape(own, {batch, steps, n}), {1, 0, 2}) : e.reshape(own, {steps, batch, n});
    return ordered(flatOwn);
  }

  std::vector<Gate> functions_;
  const double clip_;
  const bool isBatchFirst_;
  const int64_t d_;
  const bool isBack_;
  Wire lengths_, dy_;
  Wires isSeen_;
};

/// Of one direction: the gradients of the sums of the gates, [steps, batch, columns], and of what reads the state.
struct Gradients {
  Wire sums, recurrence, bias, initialH, initialC, peephole;
};

Wire columnSums(Emission &e, const Wire &all) { return e.reduce("ReduceSum", all, {0, 1}, false); }

Gradients rnn(Direction &d) {
  Emission &e = d.e;
  const GateValue f = d.gate(0, e.add(d.fromX, d.fromState));
  Wires back;
  for (int64_t s = d.steps; s-- > 0;) {
    back.push_back(d.orNothing(s, e.mul(d.arrived(s), d.at(f.slope, s))));
    d.dh = d.where(s, e.matmul(back.back(), d.recurrence), d.dh);
  }
  const Wire sums = d.stacked(back), bias = columnSums(e, sums);
  return {sums, d.byMatrix(sums, d.before), e.concat({bias, bias}, 0), d.dh, {}, {}};
}

Gradients gru(Direction &d) {
  Emission &e = d.e;
  const bool late = e.b("linear_before_reset");
  const auto both = [&](int64_t gate) { return e.add(d.part(d.fromX, gate), d.part(d.fromState, gate)); };
  const GateValue z = d.gate(0, both(0)), r = d.gate(0, both(1));
  const Wire left = e.mul(r.value, d.before), byFresh = d.rows(d.recurrence, 2, 3);
  Wire inner = late ? d.part(d.fromState, 2) : e.matmul(left, e.transpose(byFresh, {1, 0}));
  if (!late && !d.stateBias.name.empty()) inner = e.add(inner, d.part(d.stateBias, 2));
  const GateValue fresh = d.gate(1, e.add(d.part(d.fromX, 2), late ? e.mul(r.value, inner) : inner));
  Wires back, backState;
  for (int64_t s = d.steps; s-- > 0;) {
    const Wire dh = d.arrived(s), update = d.at(z.value, s), reset = d.at(r.value, s), before = d.at(d.before, s);
    const Wire dn = e.mul(e.mul(dh, e.sub(e.number(update, 1), update)), d.at(fresh.slope, s));
    const Wire dz = e.mul(e.mul(dh, e.sub(before, d.at(fresh.value, s))), d.at(z.slope, s));
    const Wire byLeft = late ? Wire() : e.matmul(dn, byFresh);
    const Wire dr = e.mul(late ? e.mul(dn, d.at(inner, s)) : e.mul(byLeft, before), d.at(r.slope, s));
    const Wire past = e.mul(dh, update);
    const Wire products = late ? e.concat({dz, dr, e.mul(dn, reset)}, 1) : e.concat({dz, dr}, 1);
    Wire next = e.add(past, e.matmul(products, late ? d.recurrence : d.rows(d.recurrence, 0, 2)));
    if (!late) next = e.add(next, e.mul(byLeft, reset));
    d.dh = d.where(s, next, d.dh);
    back.push_back(d.orNothing(s, e.concat({dz, dr, dn}, 1)));
    if (late) backState.push_back(d.orNothing(s, products));
  }
  const Wire sums = d.stacked(back), stateSums = late ? d.stacked(backState) : sums;
  const Wire matrix =
      late ? d.byMatrix(stateSums, d.before)
           : e.concat({d.byMatrix(e.slice(sums, 2, 0, 2 * d.n), d.before), d.byMatrix(d.part(sums, 2), left)}, 0);
  return {sums, matrix, e.concat({columnSums(e, sums), columnSums(e, stateSums)}, 0), d.dh, {}, {}};
}

/// A step of an LSTM.
struct CellStep {
  GateValue in, out, forget, fresh, shown;
  Wire before, after;
};

CellStep cellStep(Direction &d, const Wire &sums, const Wire &c, const Wires &peephole) {
  Emission &e = d.e;
  CellStep made;
  const auto sum = [&](int64_t gate, size_t peep, const Wire &cell) {
    const Wire own = d.part(sums, gate);
    return peephole.empty() ? own : e.add(own, e.mul(peephole[peep], cell));
  };
  made.before = c;
  made.in = d.gate(0, sum(0, 0, c));
  if (e.b("input_forget"))
    made.forget.value = e.sub(e.number(c, 1), made.in.value);
  else
    made.forget = d.gate(0, sum(2, 2, c));
  made.fresh = d.gate(1, d.part(sums, 3));
  made.after = e.add(e.mul(made.forget.value, c), e.mul(made.in.value, made.fresh.value));
  made.out = d.gate(0, sum(1, 1, made.after));
  made.shown = d.gate(2, made.after);
  return made;
}

Gradients lstm(Direction &d, int64_t direction) {
  Emission &e = d.e;
  const bool coupled = e.b("input_forget");
  Wires peephole;
  if (e.has("peephole"))
    for (int64_t k = 0; k < 3; ++k)
      peephole.push_back(e.slice(e.slice(e.in("peephole"), 0, direction, direction + 1), 1, k * d.n, (k + 1) * d.n));
  const Wire all = e.add(d.fromX, d.fromState);
  std::vector<CellStep> cells;
  Wire c = d.state("initial_c"), dc = d.state("dy_c");
  for (int64_t s = 0; s < d.steps; ++s) {
    cells.push_back(cellStep(d, d.at(all, s), c, peephole));
    c = cells.back().after;
  }
  Wires back, befores, afters;
  for (int64_t s = d.steps; s-- > 0;) {
    const CellStep &k = cells[static_cast<size_t>(s)];
    const Wire dh = d.arrived(s), dOut = e.mul(e.mul(dh, k.shown.value), k.out.slope);
    Wire dCell = e.add(dc, e.mul(e.mul(dh, k.out.value), k.shown.slope));
    if (!peephole.empty()) dCell = e.add(dCell, e.mul(dOut, peephole[1]));
    const Wire dIn = e.mul(e.mul(dCell, coupled ? e.sub(k.fresh.value, k.before) : k.fresh.value), k.in.slope);
    const Wire dForget = coupled ? e.filled(dCell.type, dCell.shape, 0) : e.mul(e.mul(dCell, k.before), k.forget.slope);
    const Wire dFresh = e.mul(e.mul(dCell, k.in.value), k.fresh.slope);
    Wire next = e.mul(dCell, k.forget.value);
    if (!peephole.empty()) next = e.add(next, e.add(e.mul(dIn, peephole[0]), e.mul(dForget, peephole[2])));
    back.push_back(d.orNothing(s, e.concat({dIn, dOut, dForget, dFresh}, 1)));
    befores.push_back(k.before), afters.push_back(k.after);
    dc = d.where(s, next, dc);
    d.dh = d.where(s, e.matmul(back.back(), d.recurrence), d.dh);
  }
  const Wire sums = d.stacked(back), bias = columnSums(e, sums);
  Gradients made{sums, d.byMatrix(sums, d.before), e.concat({bias, bias}, 0), d.dh, dc, {}};
  if (e.wants("dpeephole")) {
    const Wire before = d.stacked(befores), after = d.stacked(afters);
    made.peephole =
        e.concat({columnSums(e, e.mul(d.part(sums, 0), before)), columnSums(e, e.mul(d.part(sums, 1), after)),
                  columnSums(e, e.mul(d.part(sums, 2), before))},
                 0);
  }
  return made;
}

enum class Kind { kRnn, kGru, kLstm };

/// The functions of a direction: those that the op names, or the usual ones.
std::vector<Gate> functionsOf(Emission &e, Kind kind, int64_t direction, int64_t directions) {
  std::vector<Gate> all = gatesOf(e);
  const Gate sigmoid{kGateNames[0], 0, 0}, tanh{kGateNames[1], 0, 0};
  if (all.empty()) return kind == Kind::kRnn ? std::vector<Gate>{tanh} : std::vector<Gate>{sigmoid, tanh, tanh};
  const auto count = static_cast<std::ptrdiff_t>(all.size()) / directions;
  return {all.begin() + direction * count, all.begin() + (direction + 1) * count};
}

void emitGradient(Emission &e, Kind kind) {
  const int64_t directions = e.in("weight").dim(0), gates = kind == Kind::kRnn ? 1 : kind == Kind::kGru ? 3 : 4;
  const bool batchFirst = e.b("batch_first");
  Wire dx;
  std::map<std::string, Wires> all;
  for (int64_t k = 0; k < directions; ++k) {
    Direction d(e, gates, k, functionsOf(e, kind, k, directions));
    const Gradients made = kind == Kind::kRnn ? rnn(d) : kind == Kind::kGru ? gru(d) : lstm(d, k);
    const Wire own = d.ordered(e.matmul(made.sums, d.weight));
    dx = k == 0 ? own : e.add(dx, own);
    all["dweight"].push_back(d.byMatrix(made.sums, d.x));
    all["drecurrence"].push_back(made.recurrence);
    all["dbias"].push_back(made.bias);
    all["dinitial_h"].push_back(made.initialH);
    all["dinitial_c"].push_back(made.initialC);
    all["dpeephole"].push_back(made.peephole);
  }
  e.out("dx", batchFirst ? e.transpose(dx, {1, 0, 2}) : dx);
  for (const auto &[arg, parts] : all) {
    if (!e.wants(arg)) continue;
    // States have the directions behind the batch where that is first.
    const bool isState = arg == "dinitial_h" || arg == "dinitial_c";
    const int64_t axis = isState && batchFirst ? 1 : 0;
    Wires with;
    for (const Wire &part : parts) {
      std::vector<int64_t> dims(part.shape.begin(), part.shape.end());
      dims.insert(dims.begin() + axis, 1);
      with.push_back(e.reshape(part, dims));
    }
    e.out(arg, e.concat(with, axis));
  }
}

} // namespace

void addRecurrentGradients(EmitterTable *t) {
  const char *const to = "MatMul, Mul and Add for each step", *const note = "at most 256 steps";
  t->add("rnn_grad", Types::kWide, [](Emission &e) { emitGradient(e, Kind::kRnn); }, to, note);
  t->add("gru_grad", Types::kWide, [](Emission &e) { emitGradient(e, Kind::kGru); }, to, note);
  t->add("lstm_grad", Types::kWide, [](Emission &e) { emitGradient(e, Kind::kLstm); }, to, note);
}

} // namespace opc::onnx_export
