// ONNX's own attention.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxHeads.h"

#include <cmath>

namespace opc::onnx {
namespace {

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
  if (c.hasAttr("softmax_precision")) h.precision = c.elementTypeOf(c.i("softmax_precision", 1));
  if (c.has(3)) {
    h.mask = additive(c, c.in(3), type);
    if (h.mask->dim(-1) < h.k->dim(2)) c.unsupported("a mask of fewer keys than there are");
  }
  if (c.flag("is_causal", false)) {
    const Term causal = causalMask(c, type, h.q->dim(2), h.k->dim(2), past);
    h.mask = h.mask ? c.op("broadcast_add", {h.mask, causal}) : causal;
  }
  if (h.softcap > 0 && h.mask && c.version < 24) c.unsupported("softcap together with a mask, in operator set 23");
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

} // namespace

void addAttention(ConverterTable *t) {
  t->add("Attention", convertAttention, "batch_matmul, softmax",
         "nonpad_kv_seqlen, windows, the product as an output, softcap with a mask in operator set 23");
  t->add("RotaryEmbedding", convertRotary, "broadcast_mul, broadcast_add, slice, cat");
}

} // namespace opc::onnx
