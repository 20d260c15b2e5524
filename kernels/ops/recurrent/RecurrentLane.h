// One direction of a recurrent layer while it is computed: the order of its steps and its lengths, and the memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "recurrent/RecurrentShape.h"
#include "support/IndexCheck.h"

#include <vector>

namespace opc::ops {

/// How many steps each sequence has.
class Lengths {
public:
  Lengths(KernelBindContext *ctx, const RecurrentShape &r)
      : of_(static_cast<size_t>(r.batch), r.steps), steps_(r.steps),
        given_(ctx->Has("lengths") ? &ctx->In("lengths") : nullptr) {}
  /// Reads the tensor. Throws a ContractError for lengths that are not in [0, steps].
  void read() {
    if (!given_) return;
    withIndices(*given_, [&](const auto *lengths) {
      checkIndices(static_cast<const DeviceCtx *>(nullptr), lengths, given_->shape(), steps_ + 1, "lengths",
                   "the steps of x and 0");
      for (size_t b = 0; b < of_.size(); ++b) of_[b] = static_cast<int64_t>(lengths[b]);
    });
  }
  const int64_t *data() const { return of_.data(); }

private:
  std::vector<int64_t> of_;
  int64_t steps_;
  const Tensor *given_;
};

/// A direction's order of steps. Step s of a sequence reads time s, or counts back from the sequence's own end.
struct Lane {
  const RecurrentShape *shape;
  int64_t direction;
  const int64_t *lengths;

  bool has(int64_t s, int64_t b) const { return s < lengths[b]; }
  int64_t time(int64_t s, int64_t b) const { return shape->isBack(direction) ? lengths[b] - 1 - s : s; }
  int64_t row(int64_t s, int64_t b) const { return shape->row(time(s, b), b); }
  /// f(b) for each sequence, in parallel; by the sizes alone.
  template <class F> void forEachSequence(DeviceCtx *dev, int64_t steps, F f) const {
    const int64_t numbers = std::max<int64_t>(1, steps * shape->columns());
    dev->parallelFor(shape->batch, std::max<int64_t>(1, 4096 / numbers), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) f(b);
    });
  }
};

/// Pieces of a kernel's temporary memory, one after another.
template <class T> class Pieces {
public:
  explicit Pieces(T *memory) : next_(memory) {}
  T *take(int64_t count) {
    T *piece = next_;
    next_ += count;
    return piece;
  }

private:
  T *next_;
};

/// A state's rows of one direction, [batch, hidden]: from a tensor of all directions, or zeros; and back.
template <class T> void readState(const Lane &lane, const T *all, T *state) {
  const RecurrentShape &r = *lane.shape;
  for (int64_t b = 0; b < r.batch; ++b)
    if (all)
      std::copy_n(all + r.state(lane.direction, b), r.hidden, state + b * r.hidden);
    else
      std::fill_n(state + b * r.hidden, r.hidden, T(0));
}
template <class T> void writeState(const Lane &lane, const T *state, T *all) {
  const RecurrentShape &r = *lane.shape;
  for (int64_t b = 0; b < r.batch; ++b) std::copy_n(state + b * r.hidden, r.hidden, all + r.state(lane.direction, b));
}

/// The functions of a layer's gates, on parts of rows.
template <class T> struct GateRow {
  const RecurrentShape &r;
  int64_t direction;
  /// values = f(values); with `slopes` the derivatives.
  void apply(size_t function, T *values, int64_t n, T *slopes = nullptr) const {
    applyGate(r.function(direction, function), r.clip, values, slopes, n);
  }
};

/// to += from, where there is one.
template <class T> void addRow(const T *from, T *to, int64_t n) {
  if (from)
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}
/// to += a * b, where there is an a.
template <class T> void addProducts(const T *a, const T *b, T *to, int64_t n) {
  if (a)
    for (int64_t i = 0; i < n; ++i) to[i] += a[i] * b[i];
}

} // namespace opc::ops
