// Ops of ONNX Runtime's own domain that its optimizer writes.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <algorithm>

namespace opc::onnx {
namespace {

const char *const kDomain = "com.microsoft";

/// What ends a fused op. `parameter`: the k-th number of the activation.
template <class F> Term activated(Conversion &c, const Term &x, const std::string &kind, F parameter) {
  if (kind.empty()) return x;
  if (kind == "Relu") return c.op("relu", {x});
  if (kind == "Tanh") return c.op("tanh", {x});
  if (kind == "Sigmoid") return c.op("sigmoid", {x});
  if (kind == "LeakyRelu") return c.op("leaky_relu", {x}, {{"alpha", parameter(0, 0.01)}});
  if (kind == "Clip")
    return c.op("clip_by_scalar", {x},
                {{"floating_min", parameter(0, -3.4e38)}, {"floating_max", parameter(1, 3.4e38)}});
  if (kind == "HardSigmoid")
    return c.op("clip_by_scalar", {c.plus(c.scaled(x, parameter(0, 0.2f)), parameter(1, 0.5))},
                {{"floating_min", 0.0}, {"floating_max", 1.0}});
  c.unsupported("activation '" + kind + "'");
}

/// The node as the standard op of that name converts it.
Term standard(Conversion &c, const char *op) {
  ConverterTable::get().find("", op)->convert(c);
  return c.take().at(0);
}

void convertFusedConv(Conversion &c) {
  Term y = standard(c, "Conv");
  if (c.has(3)) c.checkShape(3, y->shape(), "the sums that it is added to");
  if (c.has(3)) y = c.op("broadcast_add", {y, c.in(3)});
  const auto numbers = c.floats("activation_params");
  c.again();
  c.out(activated(c, y, c.s("activation", ""),
                  [&](size_t k, double otherwise) { return k < numbers.size() ? numbers[k] : otherwise; }));
}

void convertFusedGemm(Conversion &c) {
  const Term y = standard(c, "Gemm");
  c.again();
  c.out(activated(c, y, c.s("activation", ""), [&](size_t k, double otherwise) {
    return c.f(k ? "activation_beta" : "activation_alpha", otherwise);
  }));
}

void convertFusedMatMul(Conversion &c) {
  const auto side = [&](size_t input, const char *trans, const char *transBatch) {
    Term x = c.in(input);
    if (x->rank() < 2) return x;
    std::vector<int64_t> perm;
    for (int64_t k = 0; k < x->rank(); ++k) perm.push_back(k);
    // Then the tensor's first axis is the matrices' first one, and the batch is between that and the last.
    if (c.flag(transBatch, false)) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
    if (c.flag(trans, false)) std::swap(perm[perm.size() - 2], perm.back());
    return c.transpose(x, perm);
  };
  c.out(c.scaled(product(c, side(0, "transA", "transBatchA"), side(1, "transB", "transBatchB")), c.f("alpha", 1)));
}

void convertFastGelu(Conversion &c) {
  if (c.has(1)) c.checkStretches(1, c.in(0)->shape());
  c.out(c.op("fast_gelu", {c.has(1) ? c.op("broadcast_add", {c.in(0), c.in(1)}) : c.in(0)}));
}

void convertQuickGelu(Conversion &c) {
  const Term x = c.in(0);
  c.out(c.op("broadcast_mul", {x, c.op("sigmoid", {c.scaled(x, c.f("alpha", 1.702f))})}));
}

Term normalized(Conversion &c, const Term &x, const Term &scale, const Term &bias, bool isRms, double epsilon) {
  if (scale->rank() != 1 || scale->dim(0) != x->dim(-1)) c.invalid("its scale is " + scale->shape().ToString());
  if (isRms) {
    const Term y = c.ops("rms_norm", {x, scale}, {{"normalized_shape", Shape({x->dim(-1)})}, {"epsilon", epsilon}})[0];
    return bias ? c.op("broadcast_add", {y, bias}) : y;
  }
  return c.ops("layer_norm", {x, bias, scale},
               {{"center", bias != nullptr},
                {"scale", true},
                {"begin_norm_axis", x->rank() - 1},
                {"begin_params_axis", x->rank() - 1},
                {"epsilon", epsilon}})[0];
}

/// input, skip, gamma, (beta,) bias: the norm of the sum, and the sum as output 3.
void convertSkip(Conversion &c, bool isRms) {
  Term x = c.op("broadcast_add", {c.in(0), c.in(1)});
  const size_t bias = isRms ? 3 : 4;
  for (size_t k : {size_t{1}, bias})
    if (c.has(k)) c.checkStretches(k, c.in(0)->shape());
  if (c.has(bias)) x = c.op("broadcast_add", {x, c.in(bias)});
  if (c.wants(1) || c.wants(2)) c.unsupported("its mean and deviation as outputs");
  c.out(0, normalized(c, x, c.in(2), isRms ? nullptr : c.maybe(3), isRms, c.f("epsilon", 1e-12f)));
  if (c.wants(3)) c.out(3, x);
}

void convertSimplified(Conversion &c) {
  const Term x = c.in(0);
  if (c.axisOf(c.i("axis", -1), x->rank()) != x->rank() - 1) c.unsupported("an axis that is not the last");
  if (c.wants(1)) c.unsupported("its deviation as output");
  c.out(0, normalized(c, x, c.in(1), nullptr, true, c.f("epsilon", 1e-5f)));
}

/// Rows of three tables, added up and normalized: ids and segments [batch, length], tables of words, places and
/// segments, scale, bias, a mask of the words, places.
void convertEmbedding(Conversion &c) {
  const Term ids = c.in(0), words = c.in(2);
  if (ids->rank() != 2 || words->rank() != 2)
    c.invalid("ids [batch, length] and a table of words are wanted, not " + ids->desc.toString() + " and " +
              words->desc.toString());
  const int64_t batch = ids->dim(0), length = ids->dim(1), width = words->dim(1);
  // Sums of rows of half precision are of f32, as are their norms.
  const DataType type = words->type();
  const auto wide = [&](const Term &t) { return type == kDouble ? t : c.cast(t, kFloat); };
  const auto row = [&](size_t table, const Term &indices, size_t input) {
    const Term t = c.in(table);
    if (t->rank() != 2 || t->dim(1) != width)
      c.invalid(c.inputText(table) + " is " + t->desc.toString() + ", and the words have " + std::to_string(width) +
                " numbers each");
    return wide(c.rows(t, indices, input));
  };
  Term x = row(2, ids, 0);
  if (c.has(8)) {
    if (c.in(8)->shape() != Shape({1, length})) c.checkShape(8, ids->shape(), "the ids");
    x = c.op("broadcast_add", {x, row(3, c.in(8), 8)});
  } else {
    const Term places = c.in(3);
    if (places->rank() != 2 || places->dim(0) < length)
      c.invalid(c.inputText(3) + " is " + places->desc.toString() + ", and there are " + std::to_string(length) +
                " places");
    x = c.op("broadcast_add", {x, wide(c.slice(places, 0, 0, length))});
  }
  if (c.has(1) != c.has(4)) c.invalid("segments and their table come together");
  if (c.has(1)) {
    c.checkShape(1, ids->shape(), "the ids");
    x = c.op("broadcast_add", {x, row(4, c.in(1), 1)});
  }
  c.out(0, c.cast(normalized(c, x, wide(c.in(5)), wide(c.in(6)), false, c.f("epsilon", 1e-12f)), type));
  if (c.wants(1)) { // how many words the mask has: those where it is 1
    if (c.has(7)) c.checkShape(7, ids->shape(), "the ids");
    const auto counted = [&](const Term &mask) {
      const Term isWord = c.op("broadcast_equal", {mask, like(c, mask, 1)});
      return c.cast(reduced(c, "reduce_sum", c.cast(isWord, kInt64), {1}, false), kInt32);
    };
    c.out(1, c.has(7) ? counted(c.in(7)) : c.expand(c.scalar(kInt32, 0), Shape({batch})));
  }
  if (c.wants(2)) c.out(2, c.cast(x, type));
}

} // namespace

void addContributed(ConverterTable *t) {
  t->add("FusedConv", convertFusedConv, "as Conv, and its activation", "as Conv", kDomain);
  t->add("FusedGemm", convertFusedGemm, "as Gemm, and its activation", "", kDomain);
  t->add("FusedMatMul", convertFusedMatMul, "as MatMul, transpose", "", kDomain);
  t->add("Gelu", [](Conversion &c) { c.out(c.op("gelu", {c.in(0)})); }, "gelu", "", kDomain);
  t->add(
      "BiasGelu",
      [](Conversion &c) {
        c.checkStretches(1, c.in(0)->shape());
        c.out(c.op("gelu", {c.op("broadcast_add", {c.in(0), c.in(1)})}));
      },
      "broadcast_add, gelu", "", kDomain);
  t->add("EmbedLayerNormalization", convertEmbedding, "gather, broadcast_add, layer_norm", "", kDomain);
  t->add("FastGelu", convertFastGelu, "fast_gelu", "", kDomain);
  t->add("QuickGelu", convertQuickGelu, "sigmoid, broadcast_mul", "", kDomain);
  t->add(
      "SkipLayerNormalization", [](Conversion &c) { convertSkip(c, false); }, "broadcast_add, layer_norm",
      "mean and deviation as outputs", kDomain);
  t->add(
      "SkipSimplifiedLayerNormalization", [](Conversion &c) { convertSkip(c, true); }, "broadcast_add, rms_norm",
      "mean and deviation as outputs", kDomain);
  t->add("SimplifiedLayerNormalization", convertSimplified, "rms_norm", "another axis than the last");
}

} // namespace opc::onnx
