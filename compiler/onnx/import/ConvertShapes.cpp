// ONNX's ops that give the same elements another shape or order.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <algorithm>
#include <numeric>

namespace opc::onnx {
namespace {

void convertReshape(Conversion &c) {
  const Term x = c.in(0);
  std::vector<int64_t> dims = c.version < 5 ? c.ints("shape", {}) : c.knownInts(1);
  const bool zeroIsZero = c.version >= 14 && c.flag("allowzero", false);
  int64_t open = -1, known = 1;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] == 0 && !zeroIsZero) {
      if (static_cast<int64_t>(k) >= x->rank())
        c.invalid("dimension " + std::to_string(k) + " copies one that the input does not have");
      dims[k] = x->dim(static_cast<int64_t>(k));
    }
    if (dims[k] < -1) c.invalid("a dimension of " + std::to_string(dims[k]));
    if (dims[k] == -1 && open >= 0) c.invalid("two dimensions are -1");
    if (dims[k] == -1)
      open = static_cast<int64_t>(k);
    else if (__builtin_mul_overflow(known, dims[k], &known))
      c.invalid("the shape has too many elements");
  }
  const int64_t count = x->shape().elem_cnt();
  if (open >= 0) {
    if (known == 0 || count % known)
      c.invalid("a tensor of " + std::to_string(count) + " elements has no shape " + Shape(dims).ToString());
    dims[static_cast<size_t>(open)] = count / known;
  }
  c.out(c.op("reshape", {x}, {{"shape", Shape(dims)}}));
}

void convertFlatten(Conversion &c) {
  const Term x = c.in(0);
  int64_t axis = c.i("axis", 1);
  if (axis < -x->rank() || axis > x->rank())
    c.invalid("axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(x->rank()));
  if (axis < 0) axis += x->rank();
  c.out(c.op("reshape", {x}, {{"shape", Shape({x->shape().Count(0, axis), x->shape().Count(axis)})}}));
}

void convertSqueeze(Conversion &c) {
  const Term x = c.in(0);
  const auto axes = c.axes("axes", 13, 1);
  DimVector dims;
  if (!axes) {
    for (int64_t d : x->shape().dim_vec())
      if (d != 1) dims.push_back(d);
  } else {
    const auto gone = c.axesOf(*axes, x->rank());
    for (int64_t k = 0; k < x->rank(); ++k) {
      if (!std::binary_search(gone.begin(), gone.end(), k))
        dims.push_back(x->dim(k));
      else if (x->dim(k) != 1)
        c.invalid("dimension " + std::to_string(k) + " is " + std::to_string(x->dim(k)) +
                  ", and only 1 can be left out");
    }
  }
  c.out(c.op("reshape", {x}, {{"shape", Shape(dims)}}));
}

void convertUnsqueeze(Conversion &c) {
  const Term x = c.in(0);
  const auto given = c.axes("axes", 13, 1);
  if (!given) c.invalid("its axes are missing");
  const int64_t rank = x->rank() + static_cast<int64_t>(given->size());
  if (rank > kMaxRank) c.invalid("rank " + std::to_string(rank));
  const auto axes = c.axesOf(*given, rank);
  DimVector dims;
  int64_t next = 0;
  for (int64_t k = 0; k < rank; ++k)
    dims.push_back(std::binary_search(axes.begin(), axes.end(), k) ? 1 : x->dim(next++));
  c.out(c.op("reshape", {x}, {{"shape", Shape(dims)}}));
}

void convertTranspose(Conversion &c) {
  const Term x = c.in(0);
  std::vector<int64_t> reversed(static_cast<size_t>(x->rank()));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  std::vector<int64_t> perm = c.ints("perm", reversed);
  if (static_cast<int64_t>(perm.size()) != x->rank())
    c.invalid("attribute 'perm' has " + std::to_string(perm.size()) + " axes, the input " + std::to_string(x->rank()));
  for (int64_t &p : perm) p = c.axisOf(p, x->rank());
  if (perm.empty()) return c.out(x);
  c.out(c.op("transpose", {x}, {{"perm", perm}}));
}

void convertExpand(Conversion &c) {
  const Term x = c.in(0);
  for (int64_t d : c.knownInts(1))
    if (d < 0) c.invalid("a dimension of " + std::to_string(d));
  const Shape to = broadcastShape(c, {x->shape(), Shape(c.knownInts(1))});
  c.out(x->shape() == to ? c.op("identity", {x}) : c.expand(x, to));
}

void convertTile(Conversion &c) {
  const Term x = c.in(0);
  if (c.version < 6) c.unsupported("tiles and axis as inputs, as before operator set 6");
  const auto repeats = c.knownInts(1);
  if (static_cast<int64_t>(repeats.size()) != x->rank())
    c.invalid("as many repeats as dimensions are wanted: " + std::to_string(repeats.size()) + " and " +
              std::to_string(x->rank()));
  // [a, b] -> [1, a, 1, b] -> [r, a, s, b] -> [r * a, s * b], one axis at a time where the rank would grow too far.
  Term y = x;
  for (int64_t axis = 0; axis < x->rank(); ++axis) {
    const int64_t n = repeats[static_cast<size_t>(axis)];
    if (n < 0) c.invalid("a repeat of " + std::to_string(n));
    if (n == 1) continue;
    DimVector flat{y->shape().Count(0, axis), 1, y->shape().Count(axis)}, more = flat, to = y->shape().dim_vec();
    more[1] = n;
    if (__builtin_mul_overflow(to[static_cast<size_t>(axis)], n, &to[static_cast<size_t>(axis)]))
      c.invalid("the result has too many elements");
    y = c.reshape(c.expand(c.reshape(y, flat), Shape(more)), to);
  }
  c.out(y == x ? c.op("identity", {x}) : y);
}

constexpr int64_t kMostBlock = 1 << 30; // whose square is one of 64 bits

void convertDepthToSpace(Conversion &c) {
  const Term x = c.in(0);
  const int64_t b = c.required("blocksize");
  const std::string mode = c.s("mode", "DCR");
  if (x->rank() != 4 || b < 1 || b > kMostBlock || x->dim(1) % (b * b))
    c.invalid("blocks of " + std::to_string(b) + " do not fit " + x->shape().ToString());
  const int64_t n = x->dim(0), depth = x->dim(1) / (b * b), h = x->dim(2), w = x->dim(3);
  Term y;
  if (mode == "DCR")
    y = c.transpose(c.reshape(x, {n, b, b, depth, h, w}), {0, 3, 4, 1, 5, 2});
  else
    y = c.transpose(c.reshape(x, {n, depth, b, b, h, w}), {0, 1, 4, 2, 5, 3});
  c.out(c.reshape(y, {n, depth, h * b, w * b}));
}

void convertSpaceToDepth(Conversion &c) {
  const Term x = c.in(0);
  const int64_t b = c.required("blocksize");
  if (x->rank() != 4 || b < 1 || b > kMostBlock || x->dim(2) % b || x->dim(3) % b)
    c.invalid("blocks of " + std::to_string(b) + " do not fit " + x->shape().ToString());
  const int64_t n = x->dim(0), depth = x->dim(1), h = x->dim(2) / b, w = x->dim(3) / b;
  const Term y = c.transpose(c.reshape(x, {n, depth, h, b, w, b}), {0, 3, 5, 1, 2, 4});
  c.out(c.reshape(y, {n, depth * b * b, h, w}));
}

void convertShape(Conversion &c) {
  const DimVector &dims = c.in(0)->shape().dim_vec();
  const int64_t rank = c.in(0)->rank();
  const auto at = [&](int64_t k) { return std::clamp<int64_t>(k < 0 ? k + rank : k, 0, rank); };
  const int64_t begin = at(c.i("start", 0)), end = std::max(begin, at(c.i("end", rank)));
  c.out(c.constant(std::vector<int64_t>(dims.begin() + begin, dims.begin() + end), Shape({end - begin})));
}

} // namespace

void addShapes(ConverterTable *t) {
  t->add("Reshape", convertReshape, "reshape");
  t->add("Flatten", convertFlatten, "reshape");
  t->add("Squeeze", convertSqueeze, "reshape");
  t->add("Unsqueeze", convertUnsqueeze, "reshape");
  t->add("Transpose", convertTranspose, "transpose");
  t->add("Expand", convertExpand, "expand");
  t->add("Tile", convertTile, "reshape, expand", "the form of operator set 1");
  t->add("DepthToSpace", convertDepthToSpace, "reshape, transpose");
  t->add("SpaceToDepth", convertSpaceToDepth, "reshape, transpose");
  t->add("Shape", convertShape, "a constant");
  t->add("Size", [](Conversion &c) { c.out(c.constant({c.in(0)->shape().elem_cnt()}, Shape())); }, "a constant");
}

} // namespace opc::onnx
