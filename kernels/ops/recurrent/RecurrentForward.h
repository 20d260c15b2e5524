// The kernel of a recurrent layer: one product for what all steps read, then for each step a product with the state and
// the gates.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Gemm.h"
#include "opc/PackedInputs.h"
#include "recurrent/RecurrentLane.h"

namespace opc::ops {

/// What a step of one direction reads and writes.
template <class T> struct StepMemory {
  const T *recurrence = nullptr; // [columns, hidden]
  const T *bias = nullptr;       // [2 * columns]: of x, then of the state; may be null
  const T *peephole = nullptr;   // [3 * hidden]; may be null
  T *projected = nullptr;        // [rows, columns]: weight x, and the biases that are no part of a product
  T *product = nullptr;          // [batch, columns]
  T *extra = nullptr;            // [batch, hidden]
  T *h = nullptr, *c = nullptr;  // [batch, hidden]: the state
  T *y = nullptr;                // of all directions

  static int64_t count(const RecurrentShape &r) {
    return r.rows() * r.columns() + r.batch * r.columns() + 3 * r.batch * r.hidden;
  }
  StepMemory(const RecurrentShape &r, Pieces<T> *pieces)
      : projected(pieces->take(r.rows() * r.columns())), product(pieces->take(r.batch * r.columns())),
        extra(pieces->take(r.batch * r.hidden)), h(pieces->take(r.batch * r.hidden)),
        c(pieces->take(r.batch * r.hidden)) {}
};

/// CellT<T>(shape, recurrence, constant) has `kKind`, `step(dev, lane, memory, s)` and `hasPackedAll()`.
template <class T, template <class> class CellT> class RecurrentTask final : public BoundKernel {
public:
  RecurrentTask(KernelBindContext *ctx, StagedTensors<T> &staged)
      : r_(recurrentShape(CellT<T>::kKind, ctx)), lengths_(ctx, r_), x_(staged.in("x")), weight_(staged.in("weight")),
        initialH_(staged.in("initial_h")), initialC_(staged.in("initial_c")), y_(staged.out("y")),
        yH_(staged.out("y_h")), yC_(staged.out("y_c")) {
    const T *recurrence = staged.in("recurrence"), *bias = staged.in("bias"), *peephole = staged.in("peephole");
    const bool fixedWeight = ctx->isConstant("weight", 0), fixedRecurrence = ctx->isConstant("recurrence", 0);
    Pieces<T> pieces(ctx->Tmp<T>());
    bool packedWeight = true, packedRecurrence = true;
    for (int64_t d = 0; d < r_.directions; ++d) {
      const T *ownWeight = weight_ + d * r_.columns() * r_.width;
      const T *ownRecurrence = recurrence + d * r_.columns() * r_.hidden;
      StepMemory<T> &m = memory_.emplace_back(r_, &pieces);
      m.recurrence = ownRecurrence;
      m.bias = bias ? bias + d * 2 * r_.columns() : nullptr;
      m.peephole = peephole ? peephole + d * 3 * r_.hidden : nullptr;
      m.y = y_;
      projections_.emplace_back(cpu::GemmShape{r_.rows(), r_.columns(), r_.width, false, true, 1, false},
                                cpu::GemmBatch{}, fixedWeight ? ownWeight : nullptr);
      cells_.emplace_back(r_, ownRecurrence, fixedRecurrence);
      packedWeight &= projections_.back().hasPackedB();
      packedRecurrence &= cells_.back().hasPackedAll();
    }
    if (packedWeight) notePackedInput(ctx, "weight");
    if (packedRecurrence) notePackedInput(ctx, "recurrence");
  }

  void Run(DeviceCtx *dev) override {
    lengths_.read();
    for (int64_t d = 0; d < r_.directions; ++d)
      projections_[static_cast<size_t>(d)].run(dev, x_, weight_ + d * r_.columns() * r_.width,
                                               memory_[static_cast<size_t>(d)].projected);
    // Two directions know nothing of each other: a thread each, where a step is too small for several.
    if (r_.directions == 2 && dev->threads() > 1 && r_.batch * r_.columns() * r_.hidden < kWorthThreads) {
      dev->parallelFor(2, 1, [&](int64_t begin, int64_t end) {
        DeviceCtx one;
        for (int64_t d = begin; d < end; ++d) runDirection(&one, d);
      });
      return;
    }
    for (int64_t d = 0; d < r_.directions; ++d) runDirection(dev, d);
  }

private:
  static constexpr int64_t kWorthThreads = int64_t{1} << 21; // multiply-adds of a step

  void runDirection(DeviceCtx *dev, int64_t d) {
    const Lane lane{&r_, d, lengths_.data()};
    const StepMemory<T> &m = memory_[static_cast<size_t>(d)];
    readState(lane, initialH_, m.h);
    readState(lane, initialC_, m.c);
    for (int64_t b = 0; b < r_.batch; ++b)
      for (int64_t t = lane.lengths[b]; t < r_.steps; ++t) std::fill_n(y_ + r_.output(t, d, b), r_.hidden, T(0));
    for (int64_t s = 0; s < r_.steps; ++s) cells_[static_cast<size_t>(d)].step(dev, lane, m, s);
    writeState(lane, m.h, yH_);
    if (yC_) writeState(lane, m.c, yC_);
  }

  const RecurrentShape r_;
  Lengths lengths_;
  const T *x_, *weight_, *initialH_, *initialC_;
  T *y_, *yH_, *yC_;
  std::vector<StepMemory<T>> memory_; // of each direction
  std::vector<cpu::Gemm<T>> projections_;
  std::vector<CellT<T>> cells_;
};

template <class T, template <class> class CellT> class RecurrentKernel : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    return std::make_unique<RecurrentTask<T, CellT>>(ctx, staged);
  }
};

/// The options of a layer's kernel: its temporary memory.
inline KernelOptions recurrentMemory(CellKind kind) {
  return KernelOptions().TmpSize([kind](InferContext *ctx) -> size_t {
    const RecurrentShape r = valueOf(recurrentShape(kind, ctx));
    return recurrentBytes(ctx, r.directions * StepMemory<float>::count(r));
  });
}

/// recurrence state for a step: rows [first, first + columns) of the recurrence.
template <class T>
cpu::Gemm<T> stateProduct(const RecurrentShape &r, const T *recurrence, bool constant, int64_t first, int64_t columns) {
  return cpu::Gemm<T>({r.batch, columns, r.hidden, false, true, 1, false}, {},
                      constant ? recurrence + first * r.hidden : nullptr);
}

} // namespace opc::ops
