// What the converters of attention share.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxHeads.h"

#include <algorithm>
#include <cmath>

namespace opc::onnx {

Term split(Conversion &c, const Term &x, int64_t heads) {
  if (x->rank() == 4) return x;
  if (x->rank() != 3 || heads < 1 || x->dim(2) % heads)
    c.invalid(std::to_string(heads) + " heads of " + x->shape().ToString());
  return c.transpose(c.reshape(x, {x->dim(0), x->dim(1), heads, x->dim(2) / heads}), {0, 2, 1, 3});
}

Term joined(Conversion &c, const Term &x) {
  return c.reshape(c.transpose(x, {0, 2, 1, 3}), {x->dim(0), x->dim(2), x->dim(1) * x->dim(3)});
}

Term repeated(Conversion &c, const Term &x, int64_t times) {
  if (times == 1) return x;
  const Term each = c.reshape(x, {x->dim(0), x->dim(1), 1, x->dim(2), x->dim(3)});
  return c.reshape(c.expand(each, Shape({x->dim(0), x->dim(1), times, x->dim(2), x->dim(3)})),
                   {x->dim(0), x->dim(1) * times, x->dim(2), x->dim(3)});
}

Term causalMask(const Conversion &c, DataType type, int64_t queries, int64_t keys, int64_t past) {
  if (queries > (1 << 24) / std::max<int64_t>(keys, 1))
    c.unsupported("a causal mask of " + std::to_string(queries) + " x " + std::to_string(keys));
  std::vector<double> cells;
  for (int64_t q = 0; q < queries; ++q)
    for (int64_t k = 0; k < keys; ++k) cells.push_back(k > q + past ? -INFINITY : 0);
  return c.constant(type, Shape({queries, keys}), cells);
}

Term additive(Conversion &c, const Term &mask, DataType type) {
  if (mask->type() != kBool) return c.cast(mask, type);
  return c.op("where", {mask, c.scalar(type, 0), c.scalar(type, -INFINITY)});
}

Term attended(Conversion &c, const Heads &h, Scores *scores) {
  Term s = c.op("batch_matmul", {c.scaled(h.q, h.scale), c.transpose(h.k, {0, 1, 3, 2})});
  const Term plain = s;
  if (!(h.softcap >= 0))
    c.invalid("attribute 'softcap' is " + std::to_string(h.softcap) + ", and must be 0 (none) or positive");
  if (h.softcap > 0) s = c.scaled(c.op("tanh", {c.scaled(s, 1 / h.softcap)}), h.softcap);
  const Term capped = s;
  if (h.mask && broadcastShape(c, {s->shape(), h.mask->shape()}) != s->shape())
    c.invalid("a mask of " + h.mask->shape().ToString() + " for " + s->shape().ToString() + " scores");
  if (h.mask) s = c.op("broadcast_add", {s, h.mask});
  const Term shares =
      c.cast(c.op("softmax", {h.precision == kInvalidDataType ? s : c.cast(s, h.precision)}), s->type());
  if (scores) *scores = {plain, capped, s, shares};
  return c.op("batch_matmul", {shares, h.v});
}

Term blindRows(Conversion &c, const Term &mask) {
  const Term largest = reduced(c, "reduce_max", mask, {mask->rank() - 1}, true);
  Term isBlind = c.op("broadcast_equal", {largest, c.scalar(mask->type(), -INFINITY)});
  if (!isBlind->value) return isBlind;
  const std::vector<double> known = Conversion::peeked(isBlind);
  return std::find(known.begin(), known.end(), 1.0) == known.end() ? nullptr : isBlind;
}

Term rotated(Conversion &c, const Term &x, const Angles &angles, const RotaryForm &form) {
  const int64_t whole = x->dim(3), turned = form.size ? form.size : whole, half = turned / 2;
  if (turned % 2 || turned > whole || turned < 2) c.invalid("rotary_embedding_dim is " + std::to_string(turned));
  if (angles.cosine->shape() != angles.sine->shape())
    c.invalid("cosines of " + angles.cosine->shape().ToString() + " and sines of " + angles.sine->shape().ToString());
  const auto ofPlaces = [&](Term table) { // [batch or 1, 1, length, half]
    if (angles.positions && table->rank() == 2) table = c.rows(table, angles.positions, angles.input);
    if (table->rank() != 3 || (table->dim(-1) != half && table->dim(-1) != whole / 2) || table->dim(1) != x->dim(2) ||
        (table->dim(0) != 1 && table->dim(0) != x->dim(0)))
      c.invalid("cosines and sines of " + table->shape().ToString() + " for " + x->shape().ToString());
    return c.reshape(c.slice(table, 2, 0, half), {table->dim(0), 1, table->dim(1), half});
  };
  const Term cosines = ofPlaces(angles.cosine), sines = ofPlaces(angles.sine);
  const Term part = c.slice(x, 3, 0, turned);
  const Term a = form.isInterleaved ? c.slice(part, 3, 0, turned, 2) : c.slice(part, 3, 0, half);
  const Term b = form.isInterleaved ? c.slice(part, 3, 1, turned, 2) : c.slice(part, 3, half, turned);
  const auto mul = [&](const Term &l, const Term &r) { return c.op("broadcast_mul", {l, r}); };
  Term left = c.op("broadcast_sub", {mul(a, cosines), mul(b, sines)}),
       right = c.op("broadcast_add", {mul(a, sines), mul(b, cosines)});
  if (form.isInterleaved) {
    DimVector pairs = left->shape().dim_vec();
    pairs.push_back(1);
    left = c.reshape(left, pairs), right = c.reshape(right, pairs);
  }
  const Term y = c.reshape(c.op("cat", {left, right}, {{"axis", form.isInterleaved ? int64_t{4} : int64_t{3}}}),
                           part->shape().dim_vec());
  return turned < whole ? c.op("cat", {y, c.slice(x, 3, turned, whole)}, {{"axis", int64_t{3}}}) : y;
}

} // namespace opc::onnx
