// Attention: ONNX's own op, and those of ONNX Runtime's domain.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <cmath>
#include <numeric>

namespace opc::onnx {
namespace {

/// [batch, length, heads * size] -> [batch, heads, length, size].
Term split(Conversion &c, const Term &x, int64_t heads) {
  if (x->rank() == 4) return x;
  if (x->rank() != 3 || heads < 1 || x->dim(2) % heads)
    c.invalid(std::to_string(heads) + " heads of " + x->shape().ToString());
  return c.transpose(c.reshape(x, {x->dim(0), x->dim(1), heads, x->dim(2) / heads}), {0, 2, 1, 3});
}

Term joined(Conversion &c, const Term &x) {
  return c.reshape(c.transpose(x, {0, 2, 1, 3}), {x->dim(0), x->dim(2), x->dim(1) * x->dim(3)});
}

/// Each of the heads `times` times, one after another.
Term repeated(Conversion &c, const Term &x, int64_t times) {
  if (times == 1) return x;
  const Term each = c.reshape(x, {x->dim(0), x->dim(1), 1, x->dim(2), x->dim(3)});
  return c.reshape(c.expand(each, Shape({x->dim(0), x->dim(1), times, x->dim(2), x->dim(3)})),
                   {x->dim(0), x->dim(1) * times, x->dim(2), x->dim(3)});
}

/// What is added to scores so that none is of a key behind its query; `past` keys come before the queries.
Term causalMask(const Conversion &c, DataType type, int64_t queries, int64_t keys, int64_t past) {
  if (queries > (1 << 24) / std::max<int64_t>(keys, 1))
    c.unsupported("a causal mask of " + std::to_string(queries) + " x " + std::to_string(keys));
  std::vector<double> cells;
  for (int64_t q = 0; q < queries; ++q)
    for (int64_t k = 0; k < keys; ++k) cells.push_back(k > q + past ? -INFINITY : 0);
  return c.constant(type, Shape({queries, keys}), cells);
}

/// A mask as what is added to scores.
Term additive(Conversion &c, const Term &mask, DataType type) {
  if (mask->type() != kBool) return c.cast(mask, type);
  return c.op("where", {mask, c.scalar(type, 0), c.scalar(type, -INFINITY)});
}

struct Heads {
  Term q, k, v; // [batch, heads, length, size]
  Term mask;    // added to scores; may be null
  double scale, softcap = 0;
};

Term scores(Conversion &c, const Heads &h) {
  return c.op("batch_matmul", {c.scaled(h.q, h.scale), c.transpose(h.k, {0, 1, 3, 2})});
}

Term capped(Conversion &c, const Term &x, double softcap) {
  return softcap > 0 ? c.scaled(c.op("tanh", {c.scaled(x, 1 / softcap)}), softcap) : x;
}

Term attended(Conversion &c, const Heads &h) {
  Term s = capped(c, scores(c, h), h.softcap);
  if (h.mask) s = c.op("broadcast_add", {s, h.mask});
  return c.op("batch_matmul", {c.op("softmax", {s}), h.v});
}

void convertAttention(Conversion &c) {
  Heads h;
  const bool isFlat = c.in(0)->rank() == 3;
  h.q = split(c, c.in(0), c.i("q_num_heads", 0)), h.k = split(c, c.in(1), c.i("kv_num_heads", 0));
  h.v = split(c, c.in(2), c.i("kv_num_heads", 0));
  int64_t past = 0;
  if (c.has(4) != c.has(5)) c.invalid("past keys and past values come together");
  if (c.has(4)) {
    past = c.in(4)->dim(2);
    h.k = c.op("cat", {c.in(4), h.k}, {{"axis", int64_t{2}}}),
    h.v = c.op("cat", {c.in(5), h.v}, {{"axis", int64_t{2}}});
  }
  c.out(1, h.k), c.out(2, h.v);
  if (c.has(6)) c.unsupported("lengths of the keys (nonpad_kv_seqlen)");
  if (c.wants(3)) c.unsupported("the product of queries and keys as an output");
  if (h.k->dim(1) < 1 || h.q->dim(1) % h.k->dim(1))
    c.invalid(std::to_string(h.q->dim(1)) + " heads of queries and " + std::to_string(h.k->dim(1)) + " of keys");
  const int64_t group = h.q->dim(1) / h.k->dim(1);
  h.k = repeated(c, h.k, group), h.v = repeated(c, h.v, group);
  h.scale = c.f("scale", 1 / std::sqrt(static_cast<double>(h.q->dim(3)))), h.softcap = c.f("softcap", 0);
  const DataType type = h.q->type();
  if (c.has(3)) {
    h.mask = additive(c, c.in(3), type);
    if (h.mask->dim(-1) < h.k->dim(2)) c.unsupported("a mask of fewer keys than there are");
  }
  if (c.i("is_causal", 0)) {
    const Term causal = causalMask(c, type, h.q->dim(2), h.k->dim(2), past);
    h.mask = h.mask ? c.op("broadcast_add", {h.mask, causal}) : causal;
  }
  if (h.softcap > 0 && h.mask && c.version < 24) c.unsupported("softcap together with a mask, in operator set 23");
  const Term y = attended(c, h);
  c.out(0, isFlat ? joined(c, y) : y);
}

/// ONNX Runtime's, of query, key, value [batch, length, heads * size]; bias; key_padding_mask; attention_bias.
void convertMultiHead(Conversion &c) {
  const int64_t heads = c.required("num_heads");
  if (!c.has(1) || !c.has(2)) c.unsupported("queries, keys and values in one tensor");
  if (c.has(4)) c.unsupported("a mask of the keys (key_padding_mask)");
  if (c.has(6) || c.has(7)) c.unsupported("past keys and values");
  if (c.wants(1) || c.wants(2)) c.unsupported("present keys and values");
  const auto part = [&](size_t input, int64_t begin) {
    Term x = c.in(input);
    if (x->rank() != 3) return x;
    if (c.has(3)) x = c.op("broadcast_add", {x, c.slice(c.in(3), 0, begin, begin + x->dim(2))});
    return split(c, x, heads);
  };
  const int64_t width = c.in(0)->rank() == 3 ? c.in(0)->dim(2) : 0;
  Heads h;
  h.q = part(0, 0), h.k = part(1, width), h.v = part(2, 2 * width);
  h.scale = c.f("scale", 0);
  if (h.scale == 0) h.scale = 1 / std::sqrt(static_cast<double>(h.q->dim(3)));
  if (c.has(5)) h.mask = c.in(5);
  if (c.i("unidirectional", 0)) {
    const Term causal = causalMask(c, h.q->type(), h.q->dim(2), h.k->dim(2), 0);
    h.mask = h.mask ? c.op("broadcast_add", {h.mask, causal}) : causal;
  }
  c.out(0, joined(c, attended(c, h)));
}

/// Turns pairs of elements of x [batch, heads, length, size] by the angles of their places.
void convertRotary(Conversion &c) {
  const bool isOrt = c.node.domain() == "com.microsoft";
  const Term given = c.in(0), positions = isOrt ? c.in(1) : c.maybe(3);
  Term cosine = c.in(isOrt ? 2 : 1), sine = c.in(isOrt ? 3 : 2);
  const bool isFlat = given->rank() == 3;
  int64_t heads = c.i("num_heads", 0);
  if (isFlat && heads == 0 && isOrt) heads = given->dim(2) / (cosine->dim(-1) * 2);
  const Term x = split(c, given, isFlat ? heads : 1);
  const int64_t whole = x->dim(3), turned = c.i("rotary_embedding_dim", 0) ? c.i("rotary_embedding_dim", 0) : whole,
                half = turned / 2;
  if (turned % 2 || turned > whole || turned < 2) c.invalid("rotary_embedding_dim is " + std::to_string(turned));
  const auto angles = [&](Term table) { // [batch or 1, 1, length, half]
    if (positions && !isOrt) table = c.op("gather", {table, positions}, {{"axis", int64_t{0}}});
    if (isOrt) {
      Term at = positions;
      if (at->shape().elem_cnt() == 1) { // the place of the first
        std::vector<int64_t> places(static_cast<size_t>(x->dim(2)));
        std::iota(places.begin(), places.end(), 0);
        at = c.op("broadcast_add", {c.reshape(at, {1, 1}), c.constant(places, Shape({1, x->dim(2)}), at->type())});
      }
      table = c.op("gather", {table, at}, {{"axis", int64_t{0}}});
    }
    if (table->rank() != 3 || table->dim(-1) < half || table->dim(1) != x->dim(2))
      c.invalid("cosines and sines of " + table->shape().ToString() + " for " + x->shape().ToString());
    return c.reshape(c.slice(table, 2, 0, half), {table->dim(0), 1, table->dim(1), half});
  };
  cosine = angles(cosine), sine = angles(sine);
  const bool isInterleaved = c.i("interleaved", 0) != 0;
  const Term part = c.slice(x, 3, 0, turned);
  const Term a = isInterleaved ? c.slice(part, 3, 0, turned, 2) : c.slice(part, 3, 0, half);
  const Term b = isInterleaved ? c.slice(part, 3, 1, turned, 2) : c.slice(part, 3, half, turned);
  const auto mul = [&](const Term &l, const Term &r) { return c.op("broadcast_mul", {l, r}); };
  Term left = c.op("broadcast_sub", {mul(a, cosine), mul(b, sine)}),
       right = c.op("broadcast_add", {mul(a, sine), mul(b, cosine)});
  DimVector dims = part->shape().dim_vec();
  if (isInterleaved) {
    DimVector pairs = left->shape().dim_vec();
    pairs.push_back(1);
    left = c.reshape(left, pairs), right = c.reshape(right, pairs);
  }
  Term y = c.reshape(c.op("cat", {left, right}, {{"axis", isInterleaved ? int64_t{4} : int64_t{3}}}), dims);
  if (turned < whole) y = c.op("cat", {y, c.slice(x, 3, turned, whole)}, {{"axis", int64_t{3}}});
  c.out(isFlat ? joined(c, y) : y);
}

} // namespace

void addAttention(ConverterTable *t) {
  t->add("Attention", convertAttention, "batch_matmul, softmax",
         "nonpad_kv_seqlen, windows, the product as an output, softcap with a mask in operator set 23");
  t->add("RotaryEmbedding", convertRotary, "broadcast_mul, broadcast_add, slice, cat");
  t->add("RotaryEmbedding", convertRotary, "broadcast_mul, broadcast_add, slice, cat", "", "com.microsoft");
  t->add("MultiHeadAttention", convertMultiHead, "batch_matmul, softmax",
         "packed operands, key_padding_mask, past and present", "com.microsoft");
}

} // namespace opc::onnx
