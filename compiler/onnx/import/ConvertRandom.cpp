// ONNX's ops that draw numbers: the distributions are ONNX's, the numbers opc's own.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <cmath>
#include <cstring>

namespace opc::onnx {
namespace {

/// The seed is a real number; its bits are an integer.
int64_t seedOf(const Conversion &c) {
  const double seed = c.f("seed", 0);
  int64_t bits = 0;
  std::memcpy(&bits, &seed, sizeof bits);
  return bits;
}

/// The element type of what is drawn: attribute dtype, or else `otherwise`.
DataType drawnType(const Conversion &c, DataType otherwise) {
  const DataType type = c.hasAttr("dtype") ? c.elementTypeOf(c.i("dtype", 1)) : otherwise;
  if (!IsFloatingDataType(type))
    c.invalid("it draws real numbers, and its element type is " + std::string(elementType(type).name),
              "attribute 'dtype' says another one: 1 (f32), 10 (f16), 11 (f64) or 16 (bf16)");
  return type;
}

Shape drawnShape(const Conversion &c) {
  const auto dims = c.ints("shape");
  if (!dims) c.invalid("attribute 'shape' is missing");
  for (int64_t d : *dims)
    if (d < 0) c.invalid("a dimension of " + std::to_string(d));
  return Shape(DimVector(dims->begin(), dims->end()));
}

Term normal(Conversion &c, const Shape &shape, DataType type) {
  const double scale = c.f("scale", 1);
  if (!(scale >= 0)) c.invalid("attribute 'scale' is " + std::to_string(scale) + ", and must not be negative");
  return c.op("normal", {},
              {{"mean", c.f("mean", 0)}, {"std", scale}, {"seed", seedOf(c)}, {"dtype", type}, {"shape", shape}});
}

Term uniform(Conversion &c, const Shape &shape, DataType type) {
  const double low = c.f("low", 0), high = c.f("high", 1);
  if (!(low <= high)) c.invalid("it draws from " + std::to_string(low) + " to " + std::to_string(high));
  return c.op("uniform", {}, {{"from", low}, {"to", high}, {"seed", seedOf(c)}, {"dtype", type}, {"shape", shape}});
}

/// 1 with the probability that the input gives.
void convertBernoulli(Conversion &c) {
  const Term x = c.in(0);
  if (!x->isFloating()) c.invalid(c.inputText(0) + " is " + x->desc.toString() + ", and must be probabilities");
  const DataType type = c.hasAttr("dtype") ? c.elementTypeOf(c.i("dtype", 1)) : x->type();
  const bool isOwn = type == x->type();
  const Term drawn = c.op("bernoulli", {x}, {{"seed", seedOf(c)}, {"dtype", isOwn ? type : kBool}});
  c.out(c.cast(drawn, type));
}

/// Classes by their logarithms [batch, classes]: that whose logarithm with a number of Gumbel's distribution is the
/// largest.
void convertMultinomial(Conversion &c) {
  const Term x = c.in(0);
  const int64_t samples = c.i("sample_size", 1);
  const DataType type = c.hasAttr("dtype") ? c.elementTypeOf(c.i("dtype", 6)) : kInt32;
  if (x->rank() != 2 || !x->isFloating() || x->dim(1) < 1)
    c.invalid(c.inputText(0) + " is " + x->desc.toString() + ", and must be logarithms [batch, classes]");
  if (samples < 1) c.invalid("attribute 'sample_size' is " + std::to_string(samples) + ", and must be positive");
  if (type != kInt32 && type != kInt64) c.invalid("attribute 'dtype' must be 6 (i32) or 7 (i64)");
  const Shape shape({x->dim(0), samples, x->dim(1)});
  // In f32 at least: few numbers of f16 lie near 0.
  const DataType drawn = x->type() == kDouble ? kDouble : kFloat;
  const Term u =
      c.op("uniform", {}, {{"from", 0.0}, {"to", 1.0}, {"seed", seedOf(c)}, {"dtype", drawn}, {"shape", shape}});
  const auto minusLog = [&](const Term &t) { return c.op("negative", {c.op("log", {t})}); };
  const Term gumbel = minusLog(minusLog(u));
  const Term logits = c.reshape(c.cast(x, drawn), {x->dim(0), 1, x->dim(1)});
  c.out(c.cast(c.op("argmax", {c.op("broadcast_add", {logits, gumbel})}), type));
}

} // namespace

void addRandom(ConverterTable *t) {
  const std::string note = "the numbers are opc's own";
  t->add("Bernoulli", convertBernoulli, "bernoulli", note);
  t->add("Multinomial", convertMultinomial, "uniform, log, argmax", note);
  t->add("RandomNormal", [](Conversion &c) { c.out(normal(c, drawnShape(c), drawnType(c, kFloat))); }, "normal", note);
  t->add(
      "RandomNormalLike", [](Conversion &c) { c.out(normal(c, c.in(0)->shape(), drawnType(c, c.in(0)->type()))); },
      "normal", note);
  t->add(
      "RandomUniform", [](Conversion &c) { c.out(uniform(c, drawnShape(c), drawnType(c, kFloat))); }, "uniform", note);
  t->add(
      "RandomUniformLike", [](Conversion &c) { c.out(uniform(c, c.in(0)->shape(), drawnType(c, c.in(0)->type()))); },
      "uniform", note);
}

} // namespace opc::onnx
