// Attention in ONNX Runtime's domain.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxHeads.h"

#include <cmath>
#include <numeric>

namespace opc::onnx {
namespace {

constexpr const char *kDomain = "com.microsoft";

Term sum(Conversion &c, const Term &a, const Term &b) { return a && b ? c.op("broadcast_add", {a, b}) : a ? a : b; }

Term count(const Conversion &c, int64_t n, const Shape &shape) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return c.constant(all, shape);
}

/// What is added to scores where `seen` is false.
Term unseen(Conversion &c, const Term &seen, DataType type, double value) {
  return c.op("where", {seen, c.scalar(type, 0), c.scalar(type, value)});
}

/// A mask of keys of Attention and MultiHeadAttention: a length for each sequence, or [batch, keys] or [batch, queries,
/// keys] of 0 and 1.
Term keyMask(Conversion &c, size_t input, const Term &q, const Term &k) {
  const Term given = c.in(input);
  c.checkType(input, {kInt32});
  const DataType type = q->type();
  const double value = c.f("mask_filter_value", -10000);
  const int64_t batch = q->dim(0), keys = k->dim(2), queries = q->dim(2);
  const auto ones = [&](const DimVector &dims) {
    return unseen(c, c.cast(c.reshape(c.within(given, 2, input), dims), kBool), type, value);
  };
  if (given->rank() == 1 && given->dim(0) == batch) {
    const Term ends = c.reshape(c.within(given, keys + 1, input), {batch, 1, 1, 1});
    return unseen(c, c.op("broadcast_less", {count(c, keys, Shape({1, 1, 1, keys})), ends}), type, value);
  }
  if (given->shape() == Shape({batch, keys})) return ones({batch, 1, 1, keys});
  if (given->shape() == Shape({batch, queries, keys})) return ones({batch, 1, queries, keys});
  c.unsupported(c.inputText(input) + " is " + given->shape().ToString() +
                "; masks are [batch], [batch, keys] or [batch, queries, keys]");
}

double scaleOf(const Conversion &c, const Term &q) {
  const double scale = c.f("scale", 0);
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(q->dim(3)));
}

Term withPast(Conversion &c, const Term &past, const Term &x) { return c.op("cat", {past, x}, {{"axis", int64_t{2}}}); }

/// The queries stand behind `past` keys.
void addCausal(const Conversion &c, Heads *h, bool hasPast, int64_t past) {
  h->isCausal = c.flag("unidirectional", false);
  h->offset = hasPast && h->q->dim(2) + past == h->k->dim(2) ? kAtEnd : past;
}

/// input [batch, length, width], weights [width, hidden of q, k, v]; bias, mask, past [2, batch, heads, length, size],
/// what is added to scores.
void convertAttention(Conversion &c) {
  const Term x = c.in(0), weights = c.in(1);
  const int64_t heads = c.required("num_heads"), all = weights->dim(-1);
  const std::vector<int64_t> sizes = c.ints("qkv_hidden_sizes", {all / 3, all / 3, all / 3});
  if (x->rank() != 3 || weights->rank() != 2 || sizes.size() != 3 || sizes[0] + sizes[1] + sizes[2] != all)
    c.invalid("an input " + x->shape().ToString() + " and weights " + weights->shape().ToString());
  for (const char *name : {"mask_filter_value", "rotary_embedding_dim", "unidirectional", "scale"}) c.hasAttr(name);
  if (c.flag("do_rotary", false)) c.unsupported("pairs turned by their places (do_rotary)");
  if (c.flag("past_present_share_buffer", false)) c.unsupported("past and present in one buffer");
  const Term projected = sum(c, c.op("matmul", {x, weights}), c.maybe(2));
  Heads h;
  h.q = split(c, c.slice(projected, 2, 0, sizes[0]), heads);
  h.k = split(c, c.slice(projected, 2, sizes[0], sizes[0] + sizes[1]), heads);
  h.v = split(c, c.slice(projected, 2, sizes[0] + sizes[1], all), heads);
  int64_t past = 0;
  if (c.has(4)) {
    const Term given = c.in(4);
    if (given->rank() != 5 || given->dim(0) != 2) c.invalid("past keys and values of " + given->shape().ToString());
    past = given->dim(3);
    const auto half = [&](int64_t k) {
      return c.reshape(c.slice(given, 0, k, k + 1), {given->dim(1), given->dim(2), past, given->dim(4)});
    };
    h.k = withPast(c, half(0), h.k), h.v = withPast(c, half(1), h.v);
  }
  if (c.wants(1)) c.out(1, c.op("stack", {h.k, h.v}, {{"axis", int64_t{0}}}));
  h.scale = scaleOf(c, h.q);
  if (c.has(3)) h.mask = keyMask(c, 3, h.q, h.k);
  h.mask = sum(c, h.mask, c.maybe(5));
  addCausal(c, &h, c.has(4), past);
  c.out(0, joined(c, attended(c, h)));
}

/// query, key, value [batch, length, heads * size], or all in one, [batch, length, heads, 3, size]; bias; a mask of the
/// keys; what is added to scores; past keys and values.
void convertMultiHead(Conversion &c) {
  const int64_t heads = c.required("num_heads");
  Heads h;
  if (c.in(0)->rank() == 5) {
    const Term all = c.in(0);
    if (c.has(1) || c.has(2) || c.has(3)) c.unsupported("bias, keys or values beside operands in one tensor");
    const auto part = [&](int64_t k) {
      const Term own = c.reshape(c.slice(all, 3, k, k + 1), {all->dim(0), all->dim(1), all->dim(2), all->dim(4)});
      return c.transpose(own, {0, 2, 1, 3});
    };
    h.q = part(0), h.k = part(1), h.v = part(2);
  } else {
    if (!c.has(1) || !c.has(2)) c.unsupported("keys and values in one tensor");
    const int64_t width = c.in(0)->rank() == 3 ? c.in(0)->dim(2) : 0;
    const auto part = [&](size_t input, int64_t begin) {
      Term x = c.in(input);
      if (x->rank() != 3) return x;
      if (c.has(3)) x = c.op("broadcast_add", {x, c.slice(c.in(3), 0, begin, begin + x->dim(2))});
      return split(c, x, heads);
    };
    h.q = part(0, 0), h.k = part(1, width), h.v = part(2, 2 * width);
  }
  int64_t past = 0;
  if (c.has(6) != c.has(7)) c.invalid("past keys and past values come together");
  if (c.has(6)) {
    past = c.in(6)->dim(2);
    h.k = withPast(c, c.in(6), h.k), h.v = withPast(c, c.in(7), h.v);
  }
  if (c.has(8)) c.unsupported("past and present in one buffer (past_sequence_length)");
  c.out(1, h.k), c.out(2, h.v);
  h.scale = scaleOf(c, h.q);
  if (c.has(4)) h.mask = keyMask(c, 4, h.q, h.k);
  h.mask = sum(c, h.mask, c.maybe(5));
  addCausal(c, &h, c.has(6), past);
  c.out(0, joined(c, attended(c, h)));
}

/// How the queries of GroupQueryAttention stand among the keys. `before` [batch]: the keys before the first query.
struct Places {
  int64_t batch, queries, past, keys; // past: places of the given keys; keys: of all
  bool isPrompt;                      // none before, in any sequence
  Term before;
};

/// Keys or values of all places: those of the past, then the new ones from `before` on, and 0 behind them.
Term present(Conversion &c, const Places &p, const Term &past, const Term &fresh) {
  const int64_t heads = fresh->dim(1), size = fresh->dim(3);
  const Shape all({p.batch, heads, p.keys, size});
  const Term begin = c.reshape(p.before, {p.batch, 1, 1, 1}), place = count(c, p.keys, Shape({1, 1, p.keys, 1}));
  const Term at = c.op("broadcast_sub", {place, begin});
  const Term held = c.op("broadcast_minimum",
                         {c.op("broadcast_maximum", {at, c.scalar(kInt64, 0)}), c.scalar(kInt64, p.queries - 1)});
  Term made = c.op("dim_gather", {fresh, c.expand(held, all)}, {{"dim", int64_t{2}}});
  made = c.op("where", {c.op("broadcast_less", {at, c.scalar(kInt64, p.queries)}), made, c.scalar(fresh->type(), 0)});
  if (p.past == 0) return made;
  const Term old =
      p.past == p.keys
          ? past
          : c.op("cat", {past, c.expand(c.scalar(past->type(), 0), Shape({p.batch, heads, p.keys - p.past, size}))},
                 {{"axis", int64_t{2}}});
  return c.op("where", {c.op("broadcast_less", {place, begin}), old, made});
}

/// Query i sees the places up to its own, and of those the last `window`, where there is one.
void addPlaces(Conversion &c, const Places &p, int64_t window, Heads *h) {
  h->isCausal = true;
  if (window > 0) h->left = window - 1;
  if (p.isPrompt)
    h->offset = 0;
  else
    h->lengths = c.op("broadcast_add", {p.before, c.scalar(kInt64, static_cast<double>(p.queries))});
}

constexpr int64_t kMostPlaces = 1 << 24;

void refuseWhatGroupsLack(Conversion &c) {
  if (c.flag("smooth_softmax", false)) c.unsupported("a softmax with a sink (smooth_softmax)");
  if (c.has(11)) c.unsupported("sinks of heads (head_sink)");
  if (c.has(12) || c.has(13)) c.unsupported("quantised keys and values");
  if (c.has(14) || c.has(15)) c.unsupported("norms of queries and keys (q_norm_weight, k_norm_weight)");
  if (c.wants(3) || c.i("qk_output", 0)) c.unsupported("the product of queries and keys as an output");
  if (!c.flag("causal", true)) c.unsupported("keys behind their queries (causal=0)");
  for (const char *name : {"k_quant_type", "v_quant_type"})
    if (c.s(name, "NONE") != "NONE") c.unsupported("quantised keys and values");
  if (c.i("sliding_window_cache", 0)) c.unsupported("past keys of a window alone (sliding_window_cache)");
}

/// The operands must have one batch, and the past its heads; tables of angles have a row for each place.
void checkGroups(const Conversion &c, const Heads &h, int64_t total) {
  const Term &k = h.k, &q = h.q;
  const size_t keys = c.has(1) ? 1 : 0;
  if (k->dim(0) != q->dim(0) || k->dim(3) != q->dim(3))
    c.invalid(c.inputText(keys) + " has keys of " + k->shape().ToString() + " for queries of " + q->shape().ToString());
  if (h.v->shape() != k->shape())
    c.invalid(c.inputText(keys + 1) + " has values of " + h.v->shape().ToString() + " for keys of " +
              k->shape().ToString());
  if (c.has(3)) {
    const int64_t past = c.in(3)->rank() == 4 ? c.in(3)->dim(2) : 0;
    if (past > kMostPlaces) c.invalid(c.inputText(3) + " is " + c.in(3)->desc.toString() + ": too many places");
    for (size_t input : {3, 4}) c.checkShape(input, Shape({k->dim(0), k->dim(1), past, k->dim(3)}), "the past ones");
  }
  if (!c.flag("do_rotary", false)) return;
  c.checkShape(8, c.in(7)->shape(), "the cosines");
  if (c.in(7)->rank() != 2 || c.in(7)->dim(0) < total)
    c.invalid(c.inputText(7) + " is " + c.in(7)->desc.toString() + ", and must have a row for each of the " +
              std::to_string(total) + " places that " + c.inputText(6) + " counts");
}

/// The number of places that the last sequence takes.
int64_t totalOf(const Conversion &c, int64_t queries) {
  c.checkType(6, {kInt32});
  if (c.in(6)->shape().elem_cnt() != 1)
    c.invalid(c.inputText(6) + " is " + c.in(6)->desc.toString() + ", not a number");
  const int64_t total = c.knownInt(6);
  if (total < queries || total > kMostPlaces)
    c.invalid(c.inputText(6) + " is " + std::to_string(total) + ": that many places of keys; " +
              std::to_string(queries) + " (the queries) to " + std::to_string(kMostPlaces) + " are possible");
  return total;
}

/// The keys before the first query of each sequence. Those of a prompt are none; later the index of the last key says
/// it, and the new keys must have places behind the past ones.
Term keysBefore(Conversion &c, const Places &p, int64_t total) {
  c.checkType(5, {kInt32});
  if (c.in(5)->shape().elem_cnt() != p.batch)
    c.invalid(c.inputText(5) + " is " + c.in(5)->desc.toString() + ", and must have the last key of each of " +
              std::to_string(p.batch) + " sequences");
  const Term last = c.reshape(c.in(5), {p.batch});
  if (p.isPrompt) {
    const Term none = c.expand(c.scalar(kInt64, 0), Shape({total}));
    return c.rows(none, last, 5);
  }
  const Term first = c.op("broadcast_sub", {c.cast(last, kInt64), c.scalar(kInt64, p.queries - 1)});
  return c.within(first, std::min(p.past, p.keys - p.queries) + 1, 5);
}

/// query [batch, length, heads * size], key and value with fewer heads, or all in query; past keys and values; the
/// index of each sequence's last key, the number of places; tables of angles, positions; what is added to scores.
void convertGroupQuery(Conversion &c) {
  const int64_t heads = c.required("num_heads"), keyHeads = c.required("kv_num_heads");
  refuseWhatGroupsLack(c);
  if (heads < 1 || keyHeads < 1 || heads % keyHeads)
    c.invalid(std::to_string(heads) + " heads of queries and " + std::to_string(keyHeads) + " of keys");
  Heads h;
  if (c.has(1)) {
    h.q = split(c, c.in(0), heads), h.k = split(c, c.in(1), keyHeads), h.v = split(c, c.in(2), keyHeads);
  } else {
    const Term all = split(c, c.in(0), heads + 2 * keyHeads);
    h.q = c.slice(all, 1, 0, heads), h.k = c.slice(all, 1, heads, heads + keyHeads);
    h.v = c.slice(all, 1, heads + keyHeads, heads + 2 * keyHeads);
  }
  if (c.has(3) != c.has(4)) c.invalid("past keys and past values come together");
  const int64_t total = totalOf(c, h.q->dim(2));
  checkGroups(c, h, total);
  const int64_t past = c.has(3) ? c.in(3)->dim(2) : 0;
  Places p{h.q->dim(0), h.q->dim(2), past, std::max(past, total), h.q->dim(2) == total && total > 1, nullptr};
  if (h.k->dim(2) != p.queries)
    c.unsupported(std::to_string(p.queries) + " queries and " + std::to_string(h.k->dim(2)) + " new keys");
  p.before = keysBefore(c, p, total);
  if (c.flag("do_rotary", false)) {
    const Term places =
        c.has(9)
            ? c.in(9)
            : c.op("broadcast_add", {c.reshape(p.before, {p.batch, 1}), count(c, p.queries, Shape({1, p.queries}))});
    const RotaryForm form{c.flag("rotary_interleaved", false), 2 * c.in(7)->dim(-1)};
    const Angles angles{c.in(7), c.in(8), places, c.has(9) ? size_t{9} : size_t{5}};
    h.q = rotated(c, h.q, angles, form), h.k = rotated(c, h.k, angles, form);
  }
  h.k = present(c, p, c.maybe(3), h.k), h.v = present(c, p, c.maybe(4), h.v);
  c.out(1, h.k), c.out(2, h.v);
  h.scale = scaleOf(c, h.q), h.softcap = c.f("softcap", 0);
  h.mask = c.maybe(10);
  addPlaces(c, p, c.i("local_window_size", -1), &h);
  c.out(0, joined(c, attended(c, h)));
}

/// Positions are for each element, or that of the first.
void convertRotary(Conversion &c) {
  const Term cosine = c.in(2);
  if (c.flag("is_packed_batching", false)) c.unsupported("sequences of several lengths in one (is_packed_batching)");
  if (c.f("scale", 1) != 1) c.unsupported("a scale of " + std::to_string(c.f("scale", 1)));
  const bool isFlat = c.in(0)->rank() == 3;
  const int64_t given = c.i("num_heads", 0);
  const Term x = split(c, c.in(0), given ? given : isFlat ? c.in(0)->dim(2) / (cosine->dim(-1) * 2) : 1);
  Term places = c.in(1);
  if (places->shape().elem_cnt() == 1)
    places =
        c.op("broadcast_add", {c.reshape(c.cast(places, kInt64), {1, 1}), count(c, x->dim(2), Shape({1, x->dim(2)}))});
  const Term y =
      rotated(c, x, {cosine, c.in(3), places, 1}, {c.flag("interleaved", false), c.i("rotary_embedding_dim", 0)});
  c.out(isFlat ? joined(c, y) : y);
}

} // namespace

void addOrtAttention(ConverterTable *t) {
  t->add("Attention", convertAttention, "matmul, scaled_dot_product_attention",
         "masks of 4 axes, of [2 * batch] and [3 * batch + 2], shared buffers, do_rotary", kDomain);
  t->add("GroupQueryAttention", convertGroupQuery, "scaled_dot_product_attention, dim_gather",
         "total_sequence_length that is not known or over 16,777,216, sinks, norms of queries and keys, causal=0, "
         "sliding_window_cache, quantised keys and values",
         kDomain);
  t->add("MultiHeadAttention", convertMultiHead, "scaled_dot_product_attention",
         "keys and values in one tensor, masks of [3 * batch + 2], shared buffers", kDomain);
  t->add("RotaryEmbedding", convertRotary, "broadcast_mul, broadcast_add, slice, cat", "", kDomain);
}

} // namespace opc::onnx
