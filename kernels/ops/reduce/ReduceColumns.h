// Reductions over the first axes as loops over rows, for regions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reduce/Reducers.h"
#include "support/Operator.h"

#include "opc/ColumnsLoop.h"

namespace opc::ops::reduce {

/// Whether each column of a plan is the reduction of rows that lie one after the other.
inline bool isColumnByColumn(const ReducePlan &p) {
  return !p.rows && p.kept.empty() && p.reduced.size() == 1 && p.inner > 1 && p.segments > 1;
}

/// What runReduce() does with such a plan: the same pieces, blocks of rows and order, so the same bits. Input `reduced`
/// of `args` is reduced, the others are not read. `final` makes an element of the output.
template <class T, class Out, class R, class Final> class ReduceColumns final : public ColumnsLoop {
public:
  ReduceColumns(const ReducePlan &plan, size_t args, size_t reduced, Final final) : reduced_(reduced), final_(final) {
    rows = plan.segments;
    size = plan.inner;
    pieceRows = plan.chunkUnits;
    inputs.assign(args, RowPart::kWhole);
    inputs[reduced] = RowPart::kRow;
    outputs = {RowPart::kWhole};
  }

  size_t StateBytes() const override { return static_cast<size_t>(size) * (sizeof(Acc) + sizeof(Lane)); }
  size_t KeptBytes() const override { return (static_cast<size_t>(size) * sizeof(Acc) + 7) / 8 * 8; }

  void Run(const void *const *in, void *const *out, int64_t first, int64_t count, void *) const override {
    auto *acc = static_cast<Acc *>(out[0]);
    auto *lanes = reinterpret_cast<Lane *>(acc + size);
    const T *x = static_cast<const T *>(in[reduced_]);
    for (const int64_t end = first + count; first < end;) {
      const int64_t at = first % pieceRows, inBlock = at % ReducePlan::kRowBlock;
      const int64_t left = std::min(rows - first, std::min(ReducePlan::kRowBlock - inBlock, pieceRows - at));
      const int64_t n = std::min(end - first, left);
      if (at == 0) std::fill_n(acc, size, R{}.acc0());
      if (inBlock == 0) std::fill_n(lanes, size, R{}.lane0());
      for (int64_t c = 0; c < size; c += ReducePlan::kColumns)
        addRows(x + c, std::min(ReducePlan::kColumns, size - c), n, lanes + c);
      if (n == left)
        for (int64_t c = 0; c < size; ++c) acc[c] = R{}.merge(acc[c], lanes[c]);
      x += n * size;
      first += n;
    }
  }

  void Finish(const char *parts, size_t stride, void *const *out, int64_t begin, int64_t end) const override {
    Out *to = static_cast<Out *>(out[0]);
    if (!to) return;
    const auto part = [&](int64_t piece) {
      return reinterpret_cast<const Acc *>(parts + static_cast<size_t>(piece) * stride);
    };
    for (int64_t c = begin; c < end; ++c) {
      Acc acc = part(0)[c];
      for (int64_t p = 1; p < pieces(); ++p) acc = R{}.combine(acc, part(p)[c]);
      to[c] = final_(acc);
    }
  }

private:
  using Load = typename R::Load;
  using Lane = typename R::Lane;
  using Acc = typename R::Acc;

  /// Rows of n columns, at most kColumns.
  void addRows(const T *x, int64_t n, int64_t count, Lane *lanes) const {
    const R r;
    Load buffer[isHalf<T> ? ReducePlan::kColumns : 1];
    int64_t i = 0;
    if constexpr (!isHalf<T>)
      for (; i + 4 <= count; i += 4, x += 4 * size) { // four rows a pass over the lanes
        const T *a = x, *b = a + size, *c = b + size, *d = c + size;
        for (int64_t k = 0; k < n; ++k)
          lanes[k] = r.step(r.step(r.step(r.step(lanes[k], a[k], 0.0), b[k], 0.0), c[k], 0.0), d[k], 0.0);
      }
    for (; i < count; ++i, x += size) {
      const Load *from = loaded(x, n, buffer);
      for (int64_t k = 0; k < n; ++k) lanes[k] = r.step(lanes[k], from[k], 0.0);
    }
  }

  size_t reduced_;
  Final final_;
};

template <class T, class Out, class R, class Final>
std::unique_ptr<RowsLoop> columnsOf(const ReducePlan &plan, size_t args, size_t reduced, Final final) {
  return std::make_unique<ReduceColumns<T, Out, R, Final>>(plan, args, reduced, final);
}

} // namespace opc::ops::reduce
