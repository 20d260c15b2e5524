// ONNX's recurrent layers, one step after another.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <algorithm>

namespace opc::onnx {
namespace {

constexpr int64_t kMostSteps = 4096;

/// The functions of the gates, with their constants.
struct Activation {
  std::string name;
  double alpha, beta;
  Term operator()(Conversion &c, const Term &x) const {
    if (name == "sigmoid" || name == "tanh" || name == "relu" || name == "softsign") return c.op(name, {x});
    if (name == "affine") return c.plus(c.scaled(x, alpha), beta);
    if (name == "scaledtanh") return c.scaled(c.op("tanh", {c.scaled(x, beta)}), alpha);
    if (name == "leakyrelu") return c.op("leaky_relu", {x}, {{"alpha", alpha}});
    if (name == "elu") return c.op("elu", {x}, {{"alpha", alpha}});
    if (name == "softplus") return c.op("softplus", {x}, {{"beta", 1.0}, {"threshold", 88.0}});
    if (name == "thresholdedrelu") return c.op("threshold", {x}, {{"threshold_val", alpha}, {"value", 0.0}});
    if (name == "hardsigmoid")
      return c.op("clip_by_scalar", {c.plus(c.scaled(x, alpha), beta)}, {{"floating_min", 0.0}, {"floating_max", 1.0}});
    c.unsupported("activation '" + name + "'");
  }
};

double usualAlpha(const std::string &name) { return name == "leakyrelu" ? 0.01 : name == "hardsigmoid" ? 0.2 : 1; }
double usualBeta(const std::string &name) { return name == "hardsigmoid" ? 0.5 : name == "scaledtanh" ? 1 : 0; }

class Layer {
public:
  Layer(Conversion &c, int64_t gates, std::vector<std::string> usual) : c_(c), gates_(gates) {
    isBatchFirst_ = c.i("layout", 0) != 0;
    x_ = c.in(0);
    if (x_->rank() != 3) c.invalid("sequences [steps, batch, numbers] are wanted, not " + x_->shape().ToString());
    if (isBatchFirst_) x_ = c.transpose(x_, {1, 0, 2});
    steps_ = x_->dim(0), batch_ = x_->dim(1);
    if (steps_ > kMostSteps) c.unsupported("sequences of more than " + std::to_string(kMostSteps) + " steps");
    if (c.in(1)->rank() != 3 || c.in(2)->rank() != 3) c.invalid("weights [directions, gates, numbers] are wanted");
    hidden_ = c.in(2)->dim(2);
    const std::string direction = c.s("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      c.invalid("attribute 'direction' is '" + direction + "'");
    directions_ = direction == "bidirectional" ? 2 : 1;
    isReverse_ = direction == "reverse";
    if (c.in(1)->dim(0) != directions_) c.invalid("weights of " + std::to_string(c.in(1)->dim(0)) + " directions");
    readActivations(std::move(usual));
    if (c.has(4)) lengths_ = c.reshape(c.cast(c.in(4), kInt64), {batch_, 1});
  }

  /// `step(direction, x, state)` gives the new state; its first part is the hidden one.
  template <class F> void run(size_t states, F step) {
    std::vector<std::vector<Term>> all(static_cast<size_t>(directions_)), last(states);
    for (int64_t d = 0; d < directions_; ++d) {
      const bool isBack = isReverse_ || d == 1;
      if (isBack && lengths_) c_.unsupported("lengths of sequences that are read backwards (sequence_lens)");
      std::vector<Term> state;
      for (size_t k = 0; k < states; ++k) state.push_back(first(5 + k, d));
      std::vector<Term> rows(static_cast<size_t>(steps_));
      for (int64_t n = 0; n < steps_; ++n) {
        const int64_t t = isBack ? steps_ - 1 - n : n;
        const Term x = c_.reshape(c_.slice(x_, 0, t, t + 1), {batch_, x_->dim(2)});
        std::vector<Term> next = step(d, x, state);
        Term row = next[0];
        if (lengths_) {
          const Term goesOn = c_.op("broadcast_less", {c_.constant({t}, Shape({1, 1})), lengths_});
          row = c_.op("where", {goesOn, row, like(c_, row, 0)});
          for (size_t k = 0; k < states; ++k) next[k] = c_.op("where", {goesOn, next[k], state[k]});
        }
        state = next;
        rows[static_cast<size_t>(t)] = c_.reshape(row, {1, 1, batch_, hidden_});
      }
      all[static_cast<size_t>(d)] = rows;
      for (size_t k = 0; k < states; ++k) last[k].push_back(c_.reshape(state[k], {1, batch_, hidden_}));
    }
    give(all, last);
  }

  /// Part `gate` of an input [directions, gates * hidden, ...].
  Term gate(size_t input, int64_t direction, int64_t gate) {
    Term t = c_.slice(c_.slice(c_.in(input), 0, direction, direction + 1), 1, gate * hidden_, (gate + 1) * hidden_);
    return c_.reshape(t, DimVector(t->shape().dim_vec().begin() + 1, t->shape().dim_vec().end()));
  }
  /// W x + its bias, of one gate.
  Term ofInput(int64_t direction, const Term &x, int64_t g) {
    return times(x, gate(1, direction, g), bias(direction, g));
  }
  Term ofState(int64_t direction, const Term &h, int64_t g) {
    return times(h, gate(2, direction, g), bias(direction, gates_ + g));
  }
  Term clipped(const Term &x) {
    const double clip = c_.f("clip", 0);
    return clip > 0 ? c_.op("clip_by_scalar", {x}, {{"floating_min", -clip}, {"floating_max", clip}}) : x;
  }
  Term activate(int64_t direction, size_t k, const Term &x) {
    return activations_[static_cast<size_t>(direction) * (activations_.size() / static_cast<size_t>(directions_)) + k](
        c_, clipped(x));
  }
  Term add(const Term &a, const Term &b) { return c_.op("broadcast_add", {a, b}); }
  Term mul(const Term &a, const Term &b) { return c_.op("broadcast_mul", {a, b}); }

private:
  Term bias(int64_t direction, int64_t g) { return c_.has(3) ? gate(3, direction, g) : nullptr; }
  Term times(const Term &x, const Term &weight, const Term &bias) {
    const Term y = c_.op("matmul", {x, weight}, {{"transpose_b", true}});
    return bias ? add(y, bias) : y;
  }

  Term first(size_t input, int64_t direction) {
    if (!c_.has(input)) return c_.expand(like(c_, x_, 0), Shape({batch_, hidden_}));
    const Term all = isBatchFirst_ ? c_.transpose(c_.in(input), {1, 0, 2}) : c_.in(input);
    return c_.reshape(c_.slice(all, 0, direction, direction + 1), {batch_, hidden_});
  }

  void readActivations(std::vector<std::string> usual) {
    std::vector<std::string> names;
    if (const Attribute *a = c_.attr("activations", Attribute::STRINGS))
      names.assign(a->strings().begin(), a->strings().end());
    if (names.empty())
      for (int64_t d = 0; d < directions_; ++d) names.insert(names.end(), usual.begin(), usual.end());
    if (names.size() != usual.size() * static_cast<size_t>(directions_))
      c_.invalid(std::to_string(names.size()) + " activations, and " +
                 std::to_string(usual.size() * static_cast<size_t>(directions_)) + " are wanted");
    const auto alphas = c_.floats("activation_alpha"), betas = c_.floats("activation_beta");
    for (size_t k = 0; k < names.size(); ++k) {
      std::transform(names[k].begin(), names[k].end(), names[k].begin(),
                     [](unsigned char l) { return std::tolower(l); });
      activations_.push_back({names[k], k < alphas.size() ? alphas[k] : usualAlpha(names[k]),
                              k < betas.size() ? betas[k] : usualBeta(names[k])});
    }
  }

  Term joined(const std::vector<Term> &parts, int64_t axis) {
    return parts.size() == 1 ? parts[0] : c_.op("cat", parts, {{"axis", axis}});
  }

  void give(const std::vector<std::vector<Term>> &all, const std::vector<std::vector<Term>> &last) {
    if (c_.wants(0)) {
      std::vector<Term> directions;
      for (const auto &rows : all) directions.push_back(joined(rows, 0));
      const Term y = joined(directions, 1); // [steps, directions, batch, hidden]
      c_.out(0, isBatchFirst_ ? c_.transpose(y, {2, 0, 1, 3}) : y);
    }
    for (size_t k = 0; k < last.size(); ++k)
      if (c_.wants(static_cast<int>(k) + 1)) {
        const Term y = joined(last[k], 0);
        c_.out(static_cast<int>(k) + 1, isBatchFirst_ ? c_.transpose(y, {1, 0, 2}) : y);
      }
  }

  Conversion &c_;
  const int64_t gates_;
  bool isBatchFirst_ = false, isReverse_ = false;
  int64_t steps_ = 0, batch_ = 0, hidden_ = 0, directions_ = 1;
  Term x_, lengths_;
  std::vector<Activation> activations_;
};

void convertRnn(Conversion &c) {
  Layer l(c, 1, {"tanh"});
  l.run(1, [&](int64_t d, const Term &x, const std::vector<Term> &s) {
    return std::vector<Term>{l.activate(d, 0, l.add(l.ofInput(d, x, 0), l.ofState(d, s[0], 0)))};
  });
}

void convertGru(Conversion &c) {
  Layer l(c, 3, {"sigmoid", "tanh"});
  const bool isLate = c.i("linear_before_reset", 0) != 0;
  l.run(1, [&](int64_t d, const Term &x, const std::vector<Term> &s) {
    const Term z = l.activate(d, 0, l.add(l.ofInput(d, x, 0), l.ofState(d, s[0], 0)));
    const Term r = l.activate(d, 0, l.add(l.ofInput(d, x, 1), l.ofState(d, s[0], 1)));
    const Term state = isLate ? l.mul(r, l.ofState(d, s[0], 2)) : l.ofState(d, l.mul(r, s[0]), 2);
    const Term h = l.activate(d, 1, l.add(l.ofInput(d, x, 2), state));
    const Term rest = c.op("broadcast_sub", {like(c, z, 1), z});
    return std::vector<Term>{l.add(l.mul(rest, h), l.mul(z, s[0]))};
  });
}

void convertLstm(Conversion &c) {
  Layer l(c, 4, {"sigmoid", "tanh", "tanh"});
  const bool isCoupled = c.i("input_forget", 0) != 0;
  l.run(2, [&](int64_t d, const Term &x, const std::vector<Term> &s) {
    const auto sum = [&](int64_t g) { return l.add(l.ofInput(d, x, g), l.ofState(d, s[0], g)); };
    const auto peep = [&](const Term &y, int64_t g, const Term &cell) {
      return c.has(7) ? l.add(y, l.mul(l.gate(7, d, g), cell)) : y;
    };
    const Term in = l.activate(d, 0, peep(sum(0), 0, s[1]));
    const Term keep = isCoupled ? c.op("broadcast_sub", {like(c, in, 1), in}) : l.activate(d, 0, peep(sum(2), 2, s[1]));
    const Term cell = l.add(l.mul(keep, s[1]), l.mul(in, l.activate(d, 1, sum(3))));
    const Term out = l.activate(d, 0, peep(sum(1), 1, cell));
    return std::vector<Term>{l.mul(out, l.activate(d, 2, cell)), cell};
  });
}

} // namespace

void addRecurrent(ConverterTable *t) {
  const char *const note = "sequence_lens with a reverse direction, more than 4,096 steps";
  t->add("RNN", convertRnn, "matmul and elementwise ops for each step", note);
  t->add("GRU", convertGru, "matmul and elementwise ops for each step", note);
  t->add("LSTM", convertLstm, "matmul and elementwise ops for each step", note);
}

} // namespace opc::onnx
