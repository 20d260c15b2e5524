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

Term additive(Conversion &c, const Term &mask, DataType type) {
  if (mask->type() != kBool) return c.cast(mask, type);
  return c.op("where", {mask, c.scalar(type, 0), c.scalar(type, -INFINITY)});
}

namespace {

void check(const Conversion &c, const Heads &h) {
  if (!(h.softcap >= 0))
    c.invalid("attribute 'softcap' is " + std::to_string(h.softcap) + ", and must be 0 (none) or positive");
  if (!h.mask) return;
  const Shape scores({h.q->dim(0), h.q->dim(1), h.q->dim(2), h.k->dim(2)});
  if (broadcastShape(c, {scores, h.mask->shape()}) != scores)
    c.invalid("a mask of " + h.mask->shape().ToString() + " for " + scores.ToString() + " scores");
}

} // namespace

Term attended(Conversion &c, const Heads &h) {
  check(c, h);
  Attrs attrs{{"scale", h.scale}};
  if (h.softcap > 0) attrs["softcap"] = h.softcap;
  if (h.isCausal) attrs["causal"] = true;
  if (h.left >= 0) attrs["window_left"] = h.left;
  if (h.right >= 0) attrs["window_right"] = h.right;
  if (h.offset != 0 && (h.isCausal || h.left >= 0 || h.right >= 0)) attrs["offset"] = h.offset;
  return c.op("scaled_dot_product_attention", {h.q, h.k, h.v, h.mask, h.lengths}, attrs);
}

Term composed(Conversion &c, Heads h, DataType precision, Scores *scores) {
  check(c, h);
  const int64_t group = h.q->dim(1) / h.k->dim(1);
  h.k = repeated(c, h.k, group), h.v = repeated(c, h.v, group);
  const Term plain = c.op("batch_matmul", {c.scaled(h.q, h.scale), c.transpose(h.k, {0, 1, 3, 2})});
  const Term capped = h.softcap > 0 ? c.scaled(c.op("tanh", {c.scaled(plain, 1 / h.softcap)}), h.softcap) : plain;
  const Term masked = h.mask ? c.op("broadcast_add", {capped, h.mask}) : capped;
  const Term shares =
      c.cast(c.op("softmax", {precision == kInvalidDataType ? masked : c.cast(masked, precision)}), masked->type());
  *scores = {plain, capped, masked, shares};
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
