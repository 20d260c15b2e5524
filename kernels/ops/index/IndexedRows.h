// Rows of a tensor that indices name: gathers read them, scatters write them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Accumulate.h"
#include "support/ElementBytes.h"
#include "support/IndexCheck.h"

namespace opc::ops {

/// Rows of axis `axis` of an argument's tensor: index i names one for each outer entry, or, with `batch`, indices have
/// outer entries too.
template <class I> struct AxisRows {
  const I *data;
  Shape shape; // of the indices
  PieceRange range;
  const char *arg, *into; // for messages: the argument of the indices, and what they point into
  int64_t outer, n, inner, step;

  AxisRows(KernelBindContext *ctx, const I *indices, const char *indexArg, const char *indexed, int64_t axis,
           const char *intoWhat, bool batch = false)
      : data(indices), shape(ctx->Desc(indexArg).shape()), range(pieceRange(ctx, indexed, axis)), arg(indexArg),
        into(intoWhat) {
    const Shape &whole = ctx->Desc(indexed).shape();
    outer = whole.Count(0, axis);
    n = batch ? shape.At(axis) : shape.elem_cnt();
    inner = whole.Count(axis + 1);
    step = batch ? n : 0;
  }
  void check(DeviceCtx *dev) const { checkIndices(dev, data, shape, range.whole, arg, into); }
  /// The offset of the row that index i names in outer entry o; -1 when another device has it.
  int64_t offset(int64_t o, int64_t i) const {
    const int64_t place = range.place(data[o * step + i]);
    return range.holds(place) ? (o * range.size + place) * inner : -1;
  }
  /// Whether a row is one element, and here: offset() is then the index, in a tensor of one outer entry.
  bool isElements() const { return inner == 1 && range.all(); }
  /// `bytes`: where the tensor of T begins, at any address.
  template <class T> void copyElements(const char *bytes, T *to, int64_t o, int64_t begin, int64_t end) const {
    constexpr int64_t size = sizeof(T);
    const I *index = data + o * step;
    bytes += o * range.size * size;
    for (int64_t i = begin; i < end; ++i, ++to) std::memcpy(to, bytes + index[i] * size, sizeof(T));
  }
};

/// out[o, i] = the row of `in` that index i names, zeros for one that another device has. `in` may begin
/// at any address.
template <class Rows> std::unique_ptr<BoundKernel> bindGather(const Tensor &in, Tensor &out, const Rows &rows) {
  const void *src = in.raw_dptr();
  void *dst = out.mut_raw_dptr();
  return withElementSize(elementSize(in), [&](auto tag) {
    using T = decltype(tag);
    return bindTask([=](DeviceCtx *dev) {
      rows.check(dev);
      const char *bytes = static_cast<const char *>(src);
      T *to = static_cast<T *>(dst);
      const int64_t n = rows.n, inner = rows.inner;
      if constexpr (requires { rows.isElements(); })
        if (rows.isElements())
          return dev->parallelFor(rows.outer * n, 16384, [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end;) {
              const int64_t first = row % n, count = std::min(n - first, end - row);
              rows.template copyElements<T>(bytes, to + row, row / n, first, first + count);
              row += count;
            }
          });
      dev->parallelFor(rows.outer * n, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, inner)),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t o = begin / n, i = begin % n, row = begin; row < end; ++row) {
                           const int64_t offset = rows.offset(o, i);
                           if (offset < 0)
                             std::memset(to + row * inner, 0, static_cast<size_t>(inner) * sizeof(T));
                           else if (inner == 1)
                             std::memcpy(to + row, bytes + offset * static_cast<int64_t>(sizeof(T)), sizeof(T));
                           else
                             std::memcpy(to + row * inner, bytes + offset * static_cast<int64_t>(sizeof(T)),
                                         static_cast<size_t>(inner) * sizeof(T));
                           if (++i == n) i = 0, ++o;
                         }
                       });
    });
  });
}

/// out: what it starts from, with the rows of `values` put to where indices say, in their order.
template <class Update, class T, class Rows>
std::unique_ptr<BoundKernel> bindScatter(const Accumulated<T> &out, const Tensor &values, const Rows &rows) {
  const T *from = static_cast<const T *>(values.raw_dptr());
  return bindTask([=](DeviceCtx *dev) {
    rows.check(dev);
    out.begin(dev);
    if constexpr (std::is_same_v<Update, Replace>) {
      for (int64_t i = 0; i < rows.n; ++i) // of equal places the last one stays
        if (const int64_t offset = rows.offset(0, i); offset >= 0)
          std::memcpy(out.data() + offset, from + i * rows.inner, static_cast<size_t>(rows.inner) * sizeof(T));
    } else {
      out.addRows(dev, from, rows);
    }
    out.end(dev);
  });
}

} // namespace opc::ops
