// What the operators share that address elements along one axis: dim_gather, dim_scatter_* and their gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/ElementBytes.h"
#include "support/IndexCheck.h"
#include "support/Operator.h"
#include "support/SbpRules.h"
#include "support/Walk.h"

namespace opc::ops {

/// Attribute dim as an axis of a tensor.
inline Maybe<int64_t> dimOf(const OpContext &ctx, const Shape &shape) {
  return resolveAxis(ctx.Attr<int32_t>("dim"), shape.NumAxes(), "dim");
}

/// index has the rank of `other`, and is nowhere longer but on axis `freeAxis`.
inline Maybe<void> fitsInside(const Shape &index, const Shape &other, int64_t freeAxis, const char *name) {
  bool fits = index.NumAxes() == other.NumAxes();
  for (int64_t a = 0; fits && a < index.NumAxes(); ++a) fits = a == freeAxis || index.At(a) <= other.At(a);
  if (!fits)
    return (Error::ShapeMismatch() << "index is " << index.ToString() << ", " << name << " is " << other.ToString())
        .help("index has the rank of the other operands and is nowhere longer than they are, but for the indexed "
              "axis of the indexed one");
  return Maybe<void>::Ok();
}
/// The type and the shape of index, which points into argument `indexed`.
inline Maybe<void> checkIndex(const InferContext *ctx, const char *indexed) {
  JUST(checkIndexType(ctx, "index"));
  const Shape &shape = ctx->In(indexed).shape();
  return fitsInside(ctx->In("index").shape(), shape, JUST(dimOf(*ctx, shape)), indexed);
}

/// Lines along dim: where they lie in index, in the indexed tensor, and in the one that goes with index.
template <class I> struct DimLines {
  const I *data; // of index
  Shape indexShape;
  PieceRange range;
  std::vector<StridedDim> index, indexed, other;
  int64_t count, length, indexStep, indexedStep, otherStep;

  DimLines(KernelBindContext *ctx, const I *indices, const char *indexedArg, const char *otherArg)
      : data(indices), indexShape(ctx->Desc("index").shape()) {
    const int64_t dim = valueOf(dimOf(*ctx, indexShape));
    range = pieceRange(ctx, indexedArg, dim);
    length = indexShape.At(dim);
    count = length == 0 ? 0 : indexShape.elem_cnt() / length;
    indexStep = place(indexShape, dim, &index);
    indexedStep = place(ctx->Desc(indexedArg).shape(), dim, &indexed);
    otherStep = place(ctx->Desc(otherArg).shape(), dim, &other);
  }
  void check(DeviceCtx *dev) const { checkIndices(dev, data, indexShape, range.whole, "index", "the indexed axis"); }
  /// f(index offset, indexed offset, other offset) for each line; lines are independent of each other.
  template <class F> void forEach(DeviceCtx *dev, F f) const {
    if (count == 0) return;
    dev->parallelFor(count, std::max<int64_t>(1, 8192 / std::max<int64_t>(1, length)), [&](int64_t b, int64_t e) {
      Walk i(index, b), x(indexed, b), o(other, b);
      for (int64_t line = b; line < e; ++line, i.next(), x.next(), o.next()) f(i.offset, x.offset, o.offset);
    });
  }

private:
  /// The positions of index without axis dim, with their offsets in a tensor of shape `shape`, and its step along dim.
  int64_t place(const Shape &shape, int64_t dim, std::vector<StridedDim> *dims) const {
    const DimVector strides = rowMajorStrides(shape);
    for (int64_t a = 0; a < indexShape.NumAxes(); ++a)
      if (a != dim) dims->push_back({indexShape.At(a), strides[static_cast<size_t>(a)]});
    return strides[static_cast<size_t>(dim)];
  }
};

/// The term of an operand in which dim is the factor `along`. The other axes split alike where all operands are equally
/// long.
inline Maybe<AxisFactors> lineFactors(const SbpContext &ctx, const std::string &along) {
  const Shape &index = ctx.In("index").shape();
  AxisFactors factors = axisFactors(index.NumAxes());
  for (const auto &[arg, i] : ctx.inputs())
    for (int64_t a = 0; a < index.NumAxes(); ++a)
      if (ctx.In(arg, i).shape().At(a) != index.At(a)) factors[static_cast<size_t>(a)] = ".";
  factors[static_cast<size_t>(JUST(dimOf(ctx, index)))] = along;
  return factors;
}

} // namespace opc::ops
