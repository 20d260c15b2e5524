// A recurrent layer of one of the three kinds: its sizes and attributes, checked, and where its rows lie.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recurrent/GateFunctions.h"

namespace opc::ops {

enum class CellKind { kRnn, kGru, kLstm };

/// x [steps, batch, width]; weight [directions, gates * hidden, width]; recurrence [directions, gates * hidden,
/// hidden]; y [steps, directions, batch, hidden]; states [directions, batch, hidden]. With `batchFirst` x is [batch,
/// steps, width], y [batch, steps, directions, hidden] and states are [batch, directions, hidden].
struct RecurrentShape {
  CellKind kind = CellKind::kRnn;
  int64_t steps = 0, batch = 0, width = 0, hidden = 0, directions = 1;
  bool batchFirst = false, reversed = false;
  bool coupled = false; // input_forget of an LSTM
  bool late = false;    // linear_before_reset of a GRU
  double clip = 0;
  std::vector<GateFunction> functions; // of each direction in turn

  int64_t gates() const { return gatesOf(kind); }
  int64_t columns() const { return gates() * hidden; } // of all gates
  int64_t rows() const { return steps * batch; }
  bool isBack(int64_t direction) const { return reversed || direction == 1; }
  const GateFunction &function(int64_t direction, size_t k) const {
    return functions[static_cast<size_t>(direction) * (functions.size() / static_cast<size_t>(directions)) + k];
  }
  /// The row of x, [rows, width].
  int64_t row(int64_t t, int64_t b) const { return batchFirst ? b * steps + t : t * batch + b; }
  /// The first element of y's row, and of a state's.
  int64_t output(int64_t t, int64_t direction, int64_t b) const {
    return (batchFirst ? (b * steps + t) * directions + direction : (t * directions + direction) * batch + b) * hidden;
  }
  int64_t state(int64_t direction, int64_t b) const {
    return (batchFirst ? b * directions + direction : direction * batch + b) * hidden;
  }
  Shape outputShape() const {
    return batchFirst ? Shape{batch, steps, directions, hidden} : Shape{steps, directions, batch, hidden};
  }
  Shape stateShape() const { return batchFirst ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden}; }
  static int64_t gatesOf(CellKind kind) { return kind == CellKind::kRnn ? 1 : kind == CellKind::kGru ? 3 : 4; }
};

/// Checks the inputs and attributes that the forward op and its gradient have; gives the sizes.
Maybe<RecurrentShape> recurrentShape(CellKind kind, const InferContext *ctx);
RecurrentShape recurrentShape(CellKind kind, const KernelContext *ctx);

/// Parts of a definition: the inputs with which the forward op and its gradient begin; attributes, sharding rule and
/// tolerances, for the forward op or the gradient.
std::function<void(OpRegistry &)> recurrentInputs(CellKind kind);
std::function<void(OpRegistry &)> recurrentRules(CellKind kind, bool forward);

/// The shape rules.
std::function<Maybe<void>(InferContext *)> inferRecurrent(CellKind kind);
std::function<Maybe<void>(InferContext *)> inferRecurrentGradient(CellKind kind);

/// Samples: of the forward op, and with what the gradient has besides. `prepare` adds what is the kind's own.
struct RecurrentCase {
  const char *name;
  const char *direction = "forward";
  int64_t steps = 3, batch = 2, width = 3, hidden = 4;
  bool bias = true, lengths = false, initial = false, batchFirst = false;
};
Case recurrentCase(CellKind kind, const RecurrentCase &c);
Case recurrentGradientCase(CellKind kind, const RecurrentCase &c);
/// What each kind has samples of.
struct CommonRecurrentCases {
  explicit CommonRecurrentCases(const char *direction); // of the one with the batch first
  RecurrentCase plain{"plain"}, lengths{"lengths", "bidirectional"}, first{"batch_first"};
};
/// Those of gru, or of gru_grad.
std::vector<Case> gruCases(bool forward);

/// Room for `count` elements of x's type, of f32 for the half types.
size_t recurrentBytes(InferContext *ctx, int64_t count);

} // namespace opc::ops
