// The loops of the reductions, over any reducer.
//
// A reducer R gives:
//   R::Load          the type in which elements are handled (f32 for f16 and bf16)
//   R::Lane, R::Acc  the types of the inner and of the outer accumulation
//   lane0(), acc0()  identities
//   step(Lane, Load, double shift) -> Lane    takes one element; shift is 0 unless the op passes shifts
//   join(Lane, Lane) -> Lane                  combines lanes
//   merge(Acc, Lane) -> Acc, combine(Acc, Acc) -> Acc
// Floating sums: an inner block of at most 4096 elements is spread over 32 lanes (128 additions each), or 64 rows are
// added a column; blocks are added in f64.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/HalfConversion.h"
#include "opc/Kernel.h"
#include "reduce/ReducePlan.h"

#include <algorithm>
#include <type_traits>

namespace opc::ops {

namespace reduce {

template <class T> constexpr bool isHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// `n` elements as R::Load: in place, or widened into `buffer`.
template <class T, class Load> const Load *loaded(const T *p, int64_t n, Load *buffer) {
  if constexpr (isHalf<T>) {
    cpu::widen(p, buffer, n);
    return buffer;
  } else {
    static_assert(std::is_same_v<T, Load>);
    return p;
  }
}

/// One run of at most ReducePlan::kBlock elements.
template <class R, class T> typename R::Lane reduceRun(const R &r, const T *data, int64_t n, double shift) {
  using Load = typename R::Load;
  using Lane = typename R::Lane;
  Load buffer[isHalf<T> ? ReducePlan::kBlock : 1];
  const Load *p = loaded(data, n, buffer);
  constexpr int64_t kLanes = 32;
  Lane total = r.lane0();
  int64_t i = 0;
  if (n >= kLanes) {
    Lane lanes[kLanes];
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] = r.lane0();
    for (; i + kLanes <= n; i += kLanes)
      for (int64_t k = 0; k < kLanes; ++k) lanes[k] = r.step(lanes[k], p[i + k], shift);
    for (int64_t half = kLanes / 2; half > 0; half /= 2)
      for (int64_t k = 0; k < half; ++k) lanes[k] = r.join(lanes[k], lanes[k + half]);
    total = lanes[0];
  }
  for (; i < n; ++i) total = r.step(total, p[i], shift);
  return total;
}

/// Units [begin, end) of the output element that starts at `data`.
template <class R, class T>
typename R::Acc reduceUnits(const R &r, const ReducePlan &p, const T *data, int64_t begin, int64_t end, double shift) {
  typename R::Acc acc = r.acc0();
  Walk segment(p.reduced, begin / p.unitsPerSegment);
  int64_t unit = begin % p.unitsPerSegment;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t at = unit * ReducePlan::kBlock;
    acc = r.merge(acc, reduceRun(r, data + segment.offset + at, std::min(ReducePlan::kBlock, p.inner - at), shift));
    if (++unit == p.unitsPerSegment) unit = 0, segment.next();
  }
  return acc;
}

/// Rows [begin, end) of `n` neighbouring columns that start at `data`.
template <class R, class T>
void reduceColumns(const R &r, const ReducePlan &p, const T *data, int64_t n, int64_t begin, int64_t end,
                   const double *shifts, typename R::Acc *acc) {
  using Load = typename R::Load;
  using Lane = typename R::Lane;
  Load buffer[isHalf<T> ? ReducePlan::kColumns : 1];
  Lane lanes[ReducePlan::kColumns];
  for (int64_t c = 0; c < n; ++c) acc[c] = r.acc0();
  Walk row(p.reduced, begin);
  for (int64_t b = begin; b < end; b += ReducePlan::kRowBlock) {
    const int64_t stop = std::min(end, b + ReducePlan::kRowBlock);
    for (int64_t c = 0; c < n; ++c) lanes[c] = r.lane0();
    int64_t i = b;
    if constexpr (!isHalf<T>)
      if (!shifts)
        for (; i + 4 <= stop; i += 4) { // four rows a pass over the lanes: the lanes' traffic is what costs
          const T *x[4];
          for (const T *&p4 : x) p4 = data + row.offset, row.next();
          for (int64_t c = 0; c < n; ++c)
            lanes[c] = r.step(r.step(r.step(r.step(lanes[c], x[0][c], 0.0), x[1][c], 0.0), x[2][c], 0.0), x[3][c], 0.0);
        }
    for (; i < stop; ++i, row.next()) {
      const Load *x = loaded(data + row.offset, n, buffer);
      if (shifts)
        for (int64_t c = 0; c < n; ++c) lanes[c] = r.step(lanes[c], x[c], shifts[c]);
      else
        for (int64_t c = 0; c < n; ++c) lanes[c] = r.step(lanes[c], x[c], 0.0);
    }
    for (int64_t c = 0; c < n; ++c) acc[c] = r.merge(acc[c], lanes[c]);
  }
}

/// The reduction of one row of a plan whose rows lie side by side (ReducePlan::isRowByRow): as runReduce() does it.
template <class R, class T> typename R::Acc reduceRow(const R &r, const ReducePlan &p, const T *row, double shift) {
  const int64_t units = p.segments * p.unitsPerSegment;
  typename R::Acc acc = reduceUnits(r, p, row, 0, std::min(units, p.chunkUnits), shift);
  for (int64_t c = 1; c < p.chunks; ++c)
    acc = r.combine(acc, reduceUnits(r, p, row, c * p.chunkUnits, std::min(units, (c + 1) * p.chunkUnits), shift));
  return acc;
}

} // namespace reduce

/// Reduces `in` and calls store(output index, Acc) once for each output element, in no order, from several threads.
/// `partials` has room for plan.partials() values of R::Acc. `shifts` (one an output, or nullptr) reaches R::step.
template <class R, class T, class Store>
void runReduce(const DeviceCtx *ctx, const ReducePlan &p, const R &r, const T *in, const double *shifts,
               typename R::Acc *partials, Store &&store) {
  using Acc = typename R::Acc;
  if (p.outputs == 0) return;
  if (p.reduceCount == 0) {
    for (int64_t o = 0; o < p.outputs; ++o) store(o, r.acc0());
    return;
  }
  const int64_t units = p.segments * p.unitsPerSegment;
  if (p.rows && p.segments == 1 && p.unitsPerSegment == 1 && p.kept.size() <= 1) { // one short run an output
    const int64_t stride = p.kept.empty() ? 0 : p.kept[0].stride;
    ctx->parallelFor(p.outputs, std::max<int64_t>(1, 16384 / p.inner), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o)
        store(o, r.merge(r.acc0(), reduce::reduceRun(r, in + o * stride, p.inner, shifts ? shifts[o] : 0.0)));
    });
    return;
  }
  if (p.rows) {
    const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, p.reduceCount / p.chunks));
    ctx->parallelFor(p.keptCount * p.chunks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t job = begin; job < end; ++job) {
        const int64_t o = job / p.chunks, chunk = job % p.chunks;
        const Walk at(p.kept, o);
        const int64_t first = chunk * p.chunkUnits, last = std::min(units, first + p.chunkUnits);
        const Acc acc = reduce::reduceUnits(r, p, in + at.offset, first, last, shifts ? shifts[o] : 0.0);
        if (p.chunks == 1)
          store(o, acc);
        else
          partials[job] = acc;
      }
    });
    if (p.chunks > 1)
      for (int64_t o = 0; o < p.outputs; ++o) {
        Acc acc = partials[o * p.chunks];
        for (int64_t c = 1; c < p.chunks; ++c) acc = r.combine(acc, partials[o * p.chunks + c]);
        store(o, acc);
      }
    return;
  }
  const int64_t tiles = (p.inner + ReducePlan::kColumns - 1) / ReducePlan::kColumns;
  const int64_t jobElements = std::min(p.inner, ReducePlan::kColumns) * std::min(p.chunkUnits, p.segments);
  ctx->parallelFor(p.keptCount * tiles * p.chunks, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, jobElements)),
                   [&](int64_t begin, int64_t end) {
                     Acc acc[ReducePlan::kColumns];
                     for (int64_t job = begin; job < end; ++job) {
                       const int64_t chunk = job % p.chunks, tile = job / p.chunks % tiles, o = job / p.chunks / tiles;
                       const Walk at(p.kept, o);
                       const int64_t c0 = tile * ReducePlan::kColumns, n = std::min(ReducePlan::kColumns, p.inner - c0);
                       const int64_t first = chunk * p.chunkUnits, last = std::min(units, first + p.chunkUnits);
                       const int64_t out = o * p.inner + c0;
                       reduce::reduceColumns(r, p, in + at.offset + c0, n, first, last, shifts ? shifts + out : nullptr,
                                             acc);
                       if (p.chunks == 1)
                         for (int64_t c = 0; c < n; ++c) store(out + c, acc[c]);
                       else
                         std::copy_n(acc, n, partials + chunk * p.outputs + out);
                     }
                   });
  if (p.chunks > 1)
    ctx->parallelFor(p.outputs, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        Acc acc = partials[o];
        for (int64_t c = 1; c < p.chunks; ++c) acc = r.combine(acc, partials[c * p.outputs + o]);
        store(o, acc);
      }
    });
}

} // namespace opc::ops
