// Ops that make data as ONNX: constants, and random numbers of the same distributions.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmitters.h"

namespace opc::onnx_export {
namespace {

/// bf16 by way of f32: runtimes expand no bf16.
Wire filled(Emission &e, DataType type, const Shape &shape, double value) {
  return e.cast(e.filled(type == kBFloat16 ? kFloat : type, shape, value), type);
}

void convertConstant(Emission &e) {
  const auto &made = e.madeFirst();
  if (e.b("is_floating_value")) return e.out(filled(e, made.data_type(), made.shape(), e.f("floating_value")));
  const Wire value = e.integers({e.i("integer_value")}, Shape());
  if (IsFloatingDataType(made.data_type()))
    return e.out(filled(e, made.data_type(), made.shape(), static_cast<double>(e.i("integer_value"))));
  e.out(e.expand(e.cast(value, made.data_type()), made.shape()));
}

void convertFilled(Emission &e, double value) {
  e.out(filled(e, e.madeFirst().data_type(), e.madeFirst().shape(), value));
}

/// start + k * delta, as constants of the model.
void convertRange(Emission &e, const std::string &kind) {
  const auto &made = e.madeFirst();
  const int64_t count = made.shape().elem_cnt();
  if (kind != "float_") {
    std::vector<int64_t> values;
    for (int64_t k = 0; k < count; ++k) values.push_back(e.i(kind + "start") + k * e.i(kind + "delta"));
    return e.out(e.cast(e.integers(values, made.shape()), made.data_type()));
  }
  std::vector<double> values;
  for (int64_t k = 0; k < count; ++k)
    values.push_back(e.f("float_start") + static_cast<double>(k) * e.f("float_delta"));
  e.out(e.constant(made.data_type(), made.shape(), values));
}

void convertArange(Emission &e) {
  convertRange(e, IsFloatingDataType(e.madeFirst().data_type()) ? "float_" : "integer_");
}

void convertEye(Emission &e) {
  const auto &made = e.madeFirst();
  std::vector<double> values(static_cast<size_t>(made.shape().elem_cnt()), 0);
  for (int64_t k = 0; k < std::min(e.i("rows"), e.i("cols")); ++k) values[static_cast<size_t>(k * e.i("cols") + k)] = 1;
  e.out(e.constant(made.data_type(), made.shape(), values));
}

// Random numbers: f32 and f64 in ONNX Runtime; others by a cast.

Wire uniform(Emission &e, const Shape &shape, double low, double high) {
  return e.node("RandomUniform", {},
                {{"dtype", elementType(kFloat).onnx},
                 {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
                 {"low", low},
                 {"high", high}},
                kFloat, shape);
}

void convertUniform(Emission &e) { e.out(uniform(e, e.madeFirst().shape(), e.f("from"), e.f("to"))); }

void convertNormal(Emission &e) {
  const Shape &shape = e.madeFirst().shape();
  e.out(e.node("RandomNormal", {},
               {{"dtype", elementType(kFloat).onnx},
                {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
                {"mean", e.f("mean")},
                {"scale", e.f("std")}},
               kFloat, shape));
}

void convertBernoulli(Emission &e) {
  const Wire x = e.cast(e.raw("in"), kFloat);
  const Wire p = e.f("p") >= 0 ? e.constant(kFloat, Shape(), {e.f("p")}) : x;
  e.out(e.cast(e.test("Less", uniform(e, x.shape, 0, 1), p), e.madeFirst().data_type()));
}

Wire keptBy(Emission &e, const Shape &shape, double rate) {
  return e.test("GreaterOrEqual", uniform(e, shape, 0, 1), e.constant(kFloat, Shape(), {rate}));
}

void convertMask(Emission &e) {
  e.out(e.cast(keptBy(e, e.madeFirst().shape(), e.f("rate")), e.madeFirst().data_type()));
}

void convertDropout(Emission &e) {
  const Wire x = e.in("in");
  const double rate = e.f("rate");
  const Wire kept = keptBy(e, x.shape, rate);
  Wire y = e.select(kept, e.scaled(x, rate < 1 ? 1 / (1 - rate) : 0), e.number(x, 0));
  if (e.has("_add_to_output")) y = e.add(y, e.in("_add_to_output"));
  e.out("mask", e.cast(kept, e.made("mask").data_type()));
  e.out("out", y);
}

void convertPermutation(Emission &e) {
  const int64_t n = e.i("n");
  const auto sorted = e.nodes("TopK", {uniform(e, Shape({n}), 0, 1), e.integers({n})}, {{"axis", 0}},
                              {{kFloat, Shape({n})}, {kInt64, Shape({n})}});
  e.out(sorted[1]);
}

} // namespace

void addConstants(EmitterTable *t) {
  t->add("constant", Types::kOwn, convertConstant, "Constant, Expand");
  t->add("constant_like", Types::kOwn, convertConstant, "Constant, Expand");
  t->add("zero_like", Types::kOwn, [](Emission &e) { convertFilled(e, 0); }, "Constant, Expand");
  t->add("ones_like", Types::kOwn, [](Emission &e) { convertFilled(e, 1); }, "Constant, Expand");
  t->add("arange", Types::kOwn, convertArange, "Constant");
  t->add("range", Types::kOwn, [](Emission &e) { convertRange(e, ""); }, "Constant");
  t->add("eye", Types::kOwn, convertEye, "Constant");
}

void addRandom(EmitterTable *t) {
  const char *note = "the numbers are the runtime's own";
  t->add("uniform", Types::kWide, convertUniform, "RandomUniform", note);
  t->add("normal", Types::kWide, convertNormal, "RandomNormal", note);
  t->add("bernoulli", Types::kWide, convertBernoulli, "RandomUniform, Less", note);
  t->add("dropout", Types::kWide, convertDropout, "RandomUniform, GreaterOrEqual, Where", note);
  t->add("random_mask_like", Types::kWide, convertMask, "RandomUniform, GreaterOrEqual", note);
  t->add("randperm", Types::kWide, convertPermutation, "RandomUniform, TopK", note);
}

} // namespace opc::onnx_export
