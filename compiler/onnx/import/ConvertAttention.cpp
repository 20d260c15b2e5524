// ONNX's own attention.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxHeads.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace opc::onnx {
namespace {

constexpr int64_t kMostCells = 1 << 24; // of a mask of places

/// Where the queries stand among the keys: query i has the place i + offset.
struct Places {
  int64_t queries, keys;
  int64_t offset = 0; // the keys of the past
  Term lengths;       // or [batch]: how many keys of each sequence count, the queries among them
  bool isCausal = false;
  int64_t left = -1, right = -1; // how far a query sees, -1: all

  bool hasLimits() const { return isCausal || left >= 0 || right >= 0; }
};

Term counted(const Conversion &c, int64_t n, const Shape &shape) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return c.constant(all, shape);
}

/// What is added to scores where `seen` is false.
Term unseen(Conversion &c, const Term &seen, DataType type) {
  return c.op("where", {seen, c.scalar(type, 0), c.scalar(type, -INFINITY)});
}

/// The mask of places where all sequences have the same one.
Term knownMask(const Conversion &c, const Places &p, DataType type) {
  if (p.queries > kMostCells / std::max<int64_t>(p.keys, 1))
    c.unsupported("a mask of " + std::to_string(p.queries) + " x " + std::to_string(p.keys) + " places");
  std::vector<double> cells;
  for (int64_t q = 0; q < p.queries; ++q)
    for (int64_t k = 0; k < p.keys; ++k) {
      const int64_t ahead = k - (q + p.offset);
      const bool isSeen =
          !(p.isCausal && ahead > 0) && !(p.left >= 0 && -ahead > p.left) && !(p.right >= 0 && ahead > p.right);
      cells.push_back(isSeen ? 0 : -INFINITY);
    }
  return c.constant(type, Shape({p.queries, p.keys}), cells);
}

/// The mask of places where each sequence has as many keys as `lengths` says, [batch, 1, queries, keys].
Term maskOfLengths(Conversion &c, const Places &p, DataType type) {
  const int64_t batch = p.lengths->dim(0);
  const Term key = counted(c, p.keys, Shape({1, 1, 1, p.keys})), count = c.reshape(p.lengths, {batch, 1, 1, 1});
  Term seen = c.op("broadcast_less", {key, count});
  const auto both = [&](const Term &more) { seen = c.op("broadcast_logical_and", {seen, more}); };
  const Term own =
      c.op("broadcast_add", {c.op("broadcast_sub", {count, c.scalar(kInt64, static_cast<double>(p.queries))}),
                             counted(c, p.queries, Shape({1, 1, p.queries, 1}))});
  const auto beside = [&](int64_t distance) {
    return c.op("broadcast_add", {own, c.constant({distance}, Shape({1, 1, 1, 1}))});
  };
  if (p.isCausal) both(c.op("broadcast_less_equal", {key, own}));
  if (p.left >= 0) both(c.op("broadcast_greater_equal", {key, beside(-p.left)}));
  if (p.right >= 0) both(c.op("broadcast_less_equal", {key, beside(p.right)}));
  return unseen(c, seen, type);
}

/// A mask of the scores, of bool or `type`. From operator set 24 on keys that it does not name are not seen; before, a
/// single column is that of all keys.
Term givenMask(Conversion &c, int64_t keys, DataType type) {
  const Term given = c.in(3), mask = given->type() == kBool ? given : c.cast(given, type);
  if (mask->rank() < 1) c.invalid(c.inputText(3) + " is a number, and must be a mask");
  if (mask->dim(-1) >= keys || (c.version < 24 && mask->dim(-1) == 1)) return mask;
  if (c.version < 24)
    c.invalid(c.inputText(3) + " is for " + std::to_string(mask->dim(-1)) + " keys, and there are " +
                  std::to_string(keys),
              "masks may be shorter from operator set 24 on");
  std::vector<int64_t> before(static_cast<size_t>(mask->rank()), 0), after = before;
  after.back() = keys - mask->dim(-1);
  return padded(c, additive(c, mask, type), before, after, "constant", c.scalar(type, -INFINITY));
}

Places placesOf(Conversion &c, const Heads &h, int64_t past) {
  Places p{h.q->dim(2), h.k->dim(2), past, nullptr, c.flag("is_causal", false)};
  for (auto [name, side] : {std::pair{"left_window_size", &p.left}, std::pair{"right_window_size", &p.right}}) {
    *side = c.i(name, -1);
    if (c.hasAttr(name) && c.version < 25)
      c.invalid(std::string("attribute '") + name + "' is one of operator set 25 on");
    if (*side < -1 || *side > INT32_MAX)
      c.invalid(std::string("attribute '") + name + "' is " + std::to_string(*side) +
                ", and must be -1 (all) or a number of places");
  }
  if (!c.has(6)) return p;
  if (c.version < 24) c.invalid(c.inputText(6) + " (nonpad_kv_seqlen) is one of operator set 24 on");
  if (c.has(4) || c.wants(1) || c.wants(2))
    c.invalid("lengths of the keys (nonpad_kv_seqlen) do not go together with past or present ones");
  c.checkShape(6, Shape({h.q->dim(0)}), "the sequences");
  if (std::max(p.keys, p.queries) > kMostCells)
    c.unsupported("a mask of " + std::to_string(p.queries) + " x " + std::to_string(p.keys) + " places");
  p.lengths = c.within(c.in(6), p.keys + 1, 6);
  return p;
}

/// All that is added to scores; null where that is nothing.
Term maskOf(Conversion &c, const Places &p, const Term &given, DataType type) {
  const Term mask = given ? additive(c, given, type) : nullptr;
  const Term ofPlaces = p.lengths ? maskOfLengths(c, p, type) : p.hasLimits() ? knownMask(c, p, type) : nullptr;
  if (!mask || !ofPlaces) return mask ? mask : ofPlaces;
  return c.op("broadcast_add", {mask, ofPlaces});
}

/// The scores that output 3 shows, by attribute qk_matmul_output_mode.
Term shown(Conversion &c, const Scores &scores, const Term &blind) {
  switch (c.i("qk_matmul_output_mode", 0)) {
  case 0: return scores.plain;
  case 1: return scores.capped;
  case 2: return scores.masked;
  default: break;
  }
  return blind ? c.op("where", {blind, c.scalar(scores.shares->type(), 0), scores.shares}) : scores.shares;
}

/// With the scores as an output, or the softmax in another type.
void convertByStep(Conversion &c, Heads h, const Places &places, DataType precision) {
  const DataType type = h.q->type();
  const Term mask = h.mask = maskOf(c, places, h.mask, type);
  // A query without a key gives 0. Its row of the mask goes, so that neither it nor a gradient becomes NaN.
  const Term blind = mask ? blindRows(c, mask) : nullptr;
  if (blind) h.mask = c.op("where", {blind, c.scalar(mask->type(), 0), mask});
  Scores scores;
  Term y = composed(c, h, precision, &scores);
  if (blind) y = c.op("where", {blind, c.scalar(y->type(), 0), y});
  if (blind && c.wants(3)) scores.masked = c.op("broadcast_add", {scores.capped, mask});
  c.out(0, c.in(0)->rank() == 3 ? joined(c, y) : y);
  if (c.wants(3)) c.out(3, shown(c, scores, blind));
}

void convertAttention(Conversion &c) {
  Heads h;
  const bool isFlat = c.in(0)->rank() == 3;
  h.q = split(c, c.in(0), c.i("q_num_heads", 0)), h.k = split(c, c.in(1), c.i("kv_num_heads", 0));
  h.v = split(c, c.in(2), c.i("kv_num_heads", 0));
  int64_t past = 0;
  if (c.has(4) != c.has(5)) c.invalid("past keys and past values come together");
  if (c.has(4)) {
    for (size_t input : {4, 5})
      if (c.in(input)->rank() != 4)
        c.invalid(c.inputText(input) + " is " + c.in(input)->desc.toString() +
                  ", and must be [batch, heads, places, size]");
    past = c.in(4)->dim(2);
    h.k = c.op("cat", {c.in(4), h.k}, {{"axis", int64_t{2}}}),
    h.v = c.op("cat", {c.in(5), h.v}, {{"axis", int64_t{2}}});
  }
  c.out(1, h.k), c.out(2, h.v);
  if (h.k->dim(1) < 1 || h.q->dim(1) % h.k->dim(1))
    c.invalid(std::to_string(h.q->dim(1)) + " heads of queries and " + std::to_string(h.k->dim(1)) + " of keys");
  h.scale = c.f("scale", 1 / std::sqrt(static_cast<double>(h.q->dim(3)))), h.softcap = c.f("softcap", 0);
  const DataType type = h.q->type(), precision = c.hasAttr("softmax_precision")
                                                     ? c.elementTypeOf(c.i("softmax_precision", 1))
                                                     : kInvalidDataType;
  const Places places = placesOf(c, h, past);
  h.mask = c.has(3) ? givenMask(c, places.keys, type) : nullptr;
  const bool isOwnPrecision = precision == kInvalidDataType || precision == (type == kDouble ? kDouble : kFloat);
  if (c.wants(3) || !isOwnPrecision) return convertByStep(c, h, places, precision);
  h.isCausal = places.isCausal, h.left = places.left, h.right = places.right;
  h.offset = c.has(4) && places.queries + past == places.keys ? kAtEnd : past, h.lengths = places.lengths;
  const Term y = attended(c, h);
  c.out(0, isFlat ? joined(c, y) : y);
}

void convertRotary(Conversion &c) {
  const int64_t heads = c.i("num_heads", 0);
  RotaryForm form{c.flag("interleaved", false), c.i("rotary_embedding_dim", 0)};
  const bool isFlat = c.in(0)->rank() == 3;
  const Term x = split(c, c.in(0), isFlat ? heads : 1);
  const Term y = rotated(c, x, {c.in(1), c.in(2), c.maybe(3), 3}, form);
  c.out(isFlat ? joined(c, y) : y);
}

/// past_cache [batch, ..., places, ...] with `update` from place write_indices [batch] on, along `axis`.
void convertTensorScatter(Conversion &c) {
  const Term cache = c.in(0), update = c.in(1);
  const int64_t axis = c.axisOf(c.i("axis", -2), cache->rank());
  if (axis == 0) c.invalid("attribute 'axis' is 0, the axis of the sequences");
  DimVector dims = cache->shape().dim_vec();
  const int64_t places = dims[static_cast<size_t>(axis)];
  const int64_t count = update->rank() == cache->rank() ? update->dim(axis) : 0;
  dims[static_cast<size_t>(axis)] = count;
  c.checkShape(1, Shape(dims), "the cache's sequences");
  if (count > places)
    c.invalid(c.inputText(1) + " has " + std::to_string(count) + " places, and the cache " + std::to_string(places));
  if (places > kMostCells) c.unsupported("a cache of " + std::to_string(places) + " places");
  const bool isCircular = c.s("mode", "linear") == "circular";
  Term first;
  if (c.has(2)) {
    c.checkType(2, {kInt64});
    c.checkShape(2, Shape({cache->dim(0)}), "the sequences");
    first = isCircular ? c.in(2) : c.within(c.in(2), places - count + 1, 2);
  } else {
    first = c.expand(c.scalar(kInt64, 0), Shape({cache->dim(0)}));
  }
  DimVector ofBatch(static_cast<size_t>(cache->rank()), 1), ofPlaces = ofBatch;
  ofBatch[0] = cache->dim(0), ofPlaces[static_cast<size_t>(axis)] = count;
  Term at = c.op("broadcast_add", {c.reshape(first, ofBatch), counted(c, count, Shape(ofPlaces))});
  if (isCircular)
    at =
        c.op("broadcast_floor_mod", {at, c.constant({std::max<int64_t>(places, 1)}, Shape(DimVector(dims.size(), 1)))});
  c.out(c.op("dim_scatter_update", {cache, c.expand(at, Shape(dims)), update}, {{"dim", axis}}));
}

} // namespace

void addAttention(ConverterTable *t) {
  t->add("Attention", convertAttention, "scaled_dot_product_attention; batch_matmul, softmax",
         "with the scores as an output masks of over 16,777,216 places");
  t->add("RotaryEmbedding", convertRotary, "broadcast_mul, broadcast_add, slice, cat");
  t->add("TensorScatter", convertTensorScatter, "dim_scatter_update", "caches of over 16,777,216 places");
}

} // namespace opc::onnx
