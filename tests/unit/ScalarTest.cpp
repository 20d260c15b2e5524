// Scalar functions: accuracy of the f32 code, number semantics, recording, printing, derivatives.
// SPDX-License-Identifier: Apache-2.0
#include "TestRegistry.h"
#include "opc/Elementwise.h"

#include "ActivationScalars.h"
#include "ArithmeticScalars.h"
#include "UnaryScalars.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace opc;
using namespace opc::scalar;

namespace {

/// The distance from the exact value in units of its last f32 place; a huge number when the kinds differ.
double ulps(float got, double want) {
  const float w = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  if (std::isinf(w)) return got == w ? 0 : 1e30;
  if (!std::isfinite(got)) return 1e30;
  int exponent;
  std::frexp(want, &exponent);
  return std::fabs(static_cast<double>(got) - want) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

using FloatFn = float (*)(float);
using DoubleFn = double (*)(double);

void checkAccuracy(const char *name, FloatFn f, DoubleFn exact, double bound) {
  double worst = 0;
  float at = 0;
  auto one = [&](float x) {
    const double u = ulps(f(x), exact(static_cast<double>(x)));
    if (u > worst) worst = u, at = x;
  };
  for (uint64_t b = 0; b < (1ull << 32); b += 5003) one(f32::fromBits(static_cast<uint32_t>(b)));
  for (int i = -200000; i <= 200000; ++i) one(static_cast<float>(i) * 5e-4f); // [-100, 100], where it is used
  for (float x :
       {0.0f, -0.0f, f32::kInf, -f32::kInf, f32::kNan, 1.0f, -1.0f, 1e-45f, -1e-45f, 1.17549435e-38f, 3.4e38f})
    one(x);
  INFO(name << " at " << at);
  CHECK(worst <= bound);
}

float at(const char *, FloatFn f, float x) { return f(x); }

} // namespace

TEST_CASE("f32 functions are within a few ulp of libm over all floats", "[scalar]") {
#define OPC_ACCURACY(name, bound)                                                                                      \
  checkAccuracy(#name, [](float x) { return f32::name(x); }, [](double x) { return std::name(x); }, bound)
  OPC_ACCURACY(exp, 1.1);
  OPC_ACCURACY(exp2, 1.0);
  OPC_ACCURACY(expm1, 1.8);
  OPC_ACCURACY(log, 1.0);
  OPC_ACCURACY(log2, 1.5);
  OPC_ACCURACY(log10, 1.5);
  OPC_ACCURACY(log1p, 1.0);
  OPC_ACCURACY(sin, 0.51);
  OPC_ACCURACY(cos, 0.51);
  OPC_ACCURACY(tan, 0.51);
  OPC_ACCURACY(sinh, 2.5);
  OPC_ACCURACY(cosh, 3.0);
  OPC_ACCURACY(tanh, 2.8);
  OPC_ACCURACY(erf, 1.5);
#undef OPC_ACCURACY
  checkAccuracy(
      "sigmoid", [](float x) { return f32::sigmoid(x); }, [](double x) { return 1 / (1 + std::exp(-x)); }, 3.0);
  CHECK(std::signbit(at("tanh", f32::tanh, -0.0f)));
  CHECK(std::signbit(at("expm1", f32::expm1, -0.0f)));
  CHECK(std::signbit(at("log1p", f32::log1p, -0.0f)));
  CHECK(std::signbit(at("sin", f32::sin, -0.0f)));
  CHECK(f32::log2(1024.0f) == 10.0f);
  CHECK(f32::exp2(-149.0f) == 1.40129846e-45f);
}

TEST_CASE("f32 pow rounds like libm in f64 and has C's special cases", "[scalar]") {
  std::mt19937 random(7);
  double worst = 0;
  for (int i = 0; i < 400000; ++i) {
    const float x = f32::fromBits(random());
    float y = f32::fromBits(random());
    if (i % 2) y = static_cast<float>(static_cast<int>(random() % 129)) / 4 - 16;
    worst = std::max(worst, ulps(f32::pow(x, y), std::pow(static_cast<double>(x), static_cast<double>(y))));
  }
  CHECK(worst <= 0.51);
  const float special[] = {0.0f, -0.0f, 1,         -1,         2,         -2,     3,     -3,
                           0.5f, -0.5f, f32::kInf, -f32::kInf, f32::kNan, 1e-45f, 3e38f, 16777215.0f};
  for (float x : special)
    for (float y : special) {
      const float got = f32::pow(x, y),
                  want = static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y)));
      INFO(x << "^" << y << " gives " << got << ", libm " << want);
      CHECK(((got == want && std::signbit(got) == std::signbit(want)) || (std::isnan(got) && std::isnan(want))));
    }
}

TEST_CASE("gamma functions agree with their definitions", "[scalar]") {
  using F = Functions;
  const double euler = 0.57721566490153286;
  CHECK(F::digamma(1.0) == Approx(-euler).epsilon(1e-14));
  CHECK(F::digamma(0.5) == Approx(-euler - 2 * std::log(2.0)).epsilon(1e-14));
  CHECK(F::trigamma(1.0) == Approx(M_PI * M_PI / 6).epsilon(1e-13));
  CHECK(F::trigamma(0.5) == Approx(M_PI * M_PI / 2).epsilon(1e-13));
  for (double x : {-3.7, -1.2, -0.3, 0.01, 0.7, 2.5, 9.9, 40.0, 1e6}) {
    INFO(x);
    const double h = 1e-5 * std::max(1.0, std::fabs(x));
    CHECK(F::digamma(x) == Approx((std::lgamma(x + h) - std::lgamma(x - h)) / (2 * h)).epsilon(1e-6).margin(1e-6));
    CHECK(F::trigamma(x) == Approx((F::digamma(x + h) - F::digamma(x - h)) / (2 * h)).epsilon(1e-6).margin(1e-8));
    CHECK(F::digamma(x + 1) == Approx(F::digamma(x) + 1 / x).epsilon(1e-12).margin(1e-12));
  }
  // Near 0 from below, where 1 + x would lose all of x: the series at 0.
  for (double x : {-1e-6, -1e-8, -1e-16, -1e-100}) {
    INFO(x);
    CHECK(F::digamma(x) == Approx(-1 / x - euler + M_PI * M_PI / 6 * x).epsilon(4e-16));
    CHECK(F::trigamma(x) == Approx(1 / x / x + M_PI * M_PI / 6 - 2 * 1.2020569031595943 * x).epsilon(1e-15));
    CHECK(F::polygamma(2.0, x) == Approx(-2 / x / x / x - 2 * 1.2020569031595943).epsilon(1e-15));
  }
  CHECK(F::polygamma(0.0, 0.7) == F::digamma(0.7));
  CHECK(F::polygamma(2.0, 1.0) == Approx(-2 * 1.2020569031595943).epsilon(1e-14));
  CHECK(F::polygamma(3.0, 1.0) == Approx(std::pow(M_PI, 4) / 15).epsilon(1e-14));
  CHECK(F::polygamma(1.0, 1e200) == Approx(1e-200));
  CHECK(std::isnan(F::polygamma(2.0, -3.0)));
  CHECK(F::polygamma(3.0, -3.0) == f32::kInf64);
  CHECK(std::isnan(F::digamma(-2.0)));
  CHECK(F::digamma(0.0) == -f32::kInf64);
  CHECK(F::trigamma(-1.0) == f32::kInf64);
  CHECK(F::lgamma(-1.0) == f32::kInf64);
}

TEST_CASE("quotients of floats round the exact quotient, as Python's // does", "[scalar]") {
  using F = Functions;
  CHECK(F::floordiv(1.0, 0.1) == 9);
  CHECK(F::floordiv(-20.0, -0.1) == 199);
  CHECK(F::floordiv(20.0, -0.1) == -200);
  CHECK(F::truncdiv(20.0, -0.1) == -199);
  CHECK(F::truncdiv(1.0f, 0.1f) == 9);
  CHECK(F::floordiv(-1.0, f32::kInf64) == -1);
  CHECK(F::floordiv(1.0, 0.0) == f32::kInf64);
  CHECK(std::isnan(F::floordiv(f32::kInf64, 2.0)));
  CHECK(F::truncdiv(f32::kInf64, 2.0) == f32::kInf64);
  CHECK(std::signbit(F::floordiv(-0.0, 3.0)));
  std::mt19937 random(11);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int i = 0; i < 20000; ++i) {
    const double whole = std::floor(uniform(random) * 1000), b = uniform(random), a = whole * b;
    INFO(a << " // " << b);
    const double q = F::floordiv(a, b), r = F::floormod(a, b);
    CHECK((std::fabs(r) < std::fabs(b) && (r == 0 || (r < 0) == (b < 0))));
    CHECK(std::fabs(q * b + r - a) <= 1e-12 * std::fabs(a)); // they belong together
    CHECK(std::fabs(F::truncdiv(a, b) * b + F::fmod(a, b) - a) <= 1e-12 * std::fabs(a));
  }
}

TEST_CASE("16-bit floats round to nearest even and read back", "[scalar]") {
  for (uint32_t b = 0; b < 65536; ++b) {
    float16 h;
    h.bits = static_cast<uint16_t>(b);
    bfloat16 g;
    g.bits = static_cast<uint16_t>(b);
    const float f = static_cast<float>(h), e = static_cast<float>(g);
    if (!std::isnan(f)) REQUIRE(float16(f).bits == b);
    if (!std::isnan(e)) REQUIRE(bfloat16(e).bits == b);
    if (std::isnan(f)) REQUIRE(std::isnan(static_cast<float>(float16(f))));
    if (std::isnan(e)) REQUIRE(std::isnan(static_cast<float>(bfloat16(e))));
  }
  CHECK(float16(1.0f + 0x1p-11f).bits == 0x3c00); // a tie goes to the even neighbour
  CHECK(float16(1.0f + 3 * 0x1p-11f).bits == 0x3c02);
  CHECK(float16(65519.0f).bits == 0x7bff);
  CHECK(float16(65520.0f).bits == 0x7c00);
  CHECK(float16(0x1p-25f).bits == 0);
  CHECK(float16(0x1.8p-25f).bits == 1);
  CHECK(bfloat16(1.0f + 0x1p-8f).bits == 0x3f80);
  CHECK(bfloat16(1.0f + 3 * 0x1p-8f).bits == 0x3f82);
}

TEST_CASE("integer numbers wrap around and never divide by zero", "[scalar]") {
  using I = Number<int32_t>;
  const int32_t low = std::numeric_limits<int32_t>::min(), high = std::numeric_limits<int32_t>::max();
  CHECK((I(high) + I(1)).value == low);
  CHECK((I(low) / I(-1)).value == low);
  CHECK((I(7) / I(0)).value == 0);
  CHECK((-I(low)).value == low);
  CHECK((I(65536) * I(65536)).value == 0);
  CHECK((Number<int8_t>(100) + Number<int8_t>(100)).value == -56);
  CHECK((Number<uint8_t>(3) - Number<uint8_t>(5)).value == 254);
  using F = Functions;
  CHECK(F::fmod(-7, 3) == -1);
  CHECK(F::floormod(-7, 3) == 2);
  CHECK(F::floormod(7, -3) == -2);
  CHECK(F::floordiv(-7, 3) == -3);
  CHECK(F::truncdiv(-7, 3) == -2);
  CHECK(F::floormod(low, -1) == 0);
  CHECK(F::floormod(5, 0) == 0);
  CHECK(F::floordiv(5, 0) == 0);
  CHECK(F::pow(3, 4) == 81);
  CHECK(F::pow(-1, -3) == -1);
  CHECK(F::pow(2, -1) == 0);
  CHECK(F::abs(low) == low);
  CHECK(F::floormod(-7.5f, 2.0f) == 0.5f);
  CHECK(std::isnan(F::max(f32::kNan, 1.0f)));
  CHECK(std::isnan(F::max(1.0f, f32::kNan)));
  CHECK(std::isnan(F::min(1.0, f32::kNan64)));
  CHECK(F::round(2.5f) == 2.0f);
  CHECK(F::round(-3.5) == -4.0);
}

namespace {
OPC_SCALAR(Parentheses, x, y) { return (x - (y - 1)) * -(x + y) / (x / y) - -x; }
OPC_SCALAR(Conditions, x, y) { return select((x > 0 && y <= 1) || !(x == y), x, max(y, 2)); }
OPC_SCALAR(Shared, x) { return exp(x) * exp(x) + exp(x); }
OPC_SCALAR(Power, x) { return pow(x, 3); }
OPC_SCALAR(Order, n, x) { return polygamma(n, x); } // has no derivative by n
} // namespace

TEST_CASE("expressions print with the fewest parentheses", "[scalar]") {
  CHECK(record<Gelu>().text() == "0.5 * x * (1 + erf(x * 0.7071067811865476))");
  CHECK(record<Parentheses>().text() == "(x - (y - 1)) * -(x + y) / (x / y) - -x");
  CHECK(record<Conditions>().text() == "select(x > 0 && y <= 1 || !(x == y), x, max(y, 2))");
  CHECK(record<Softplus>(1).text() == "select(beta * x > threshold, x, softplus(beta * x) / beta)");
  CHECK(record<Shared>().nodes().size() == 4); // x, exp(x), its square, the sum
}

TEST_CASE("derivatives are simplified", "[scalar]") {
  auto d = [](const ScalarProgram &p, int32_t i) { return (*p.derivative(i)).text(); };
  CHECK(d(record<Square>(), 0) == "x + x");
  CHECK(d(record<Mul>(), 0) == "y");
  CHECK(d(record<Mul>(), 1) == "x");
  CHECK(d(record<Add>(), 1) == "1");
  CHECK(d(record<Sub>(), 1) == "-1");
  CHECK(d(record<Div>(), 0) == "1 / y");
  CHECK(d(record<Div>(), 1) == "-(x / y / y)");
  CHECK(d(record<Relu>(), 0) == "select(x <= 0, 0, 1)");
  CHECK(d(record<Power>(), 0) == "3 * pow(x, 2)");
  CHECK(d(record<Exp>(), 0) == "exp(x)");
  CHECK(d(record<Floor>(), 0) == "0");
  CHECK(d(record<Tanh>(), 0) == "1 - tanh(x) * tanh(x)");
  CHECK(d(record<LogSigmoid>(), 0) == "sigmoid(-x)");
  CHECK(d(record<Trigamma>(), 0) == "polygamma(2, x)");
  CHECK_FALSE(record<Order>().derivative(0).isOk());
}

TEST_CASE("linear groups follow from the expression", "[scalar]") {
  using Groups = std::vector<std::vector<int32_t>>;
  CHECK(record<Add>().linearGroups() == Groups{{0, 1}});
  CHECK(record<Sub>().linearGroups() == Groups{{0, 1}});
  CHECK(record<Mul>().linearGroups() == Groups{{0}, {1}});
  CHECK(record<Div>().linearGroups() == Groups{{0}});
  CHECK(record<Negative>().linearGroups() == Groups{{0}});
  CHECK(record<Lerp>().linearGroups() == Groups{{0, 1}});
  CHECK(record<Add>(1).linearGroups().empty()); // x + a number is affine
  CHECK(record<Mul>(1).linearGroups() == Groups{{0}});
  CHECK(record<Exp>().linearGroups().empty());
  CHECK(record<Floor>().linearGroups().empty());
  CHECK(record<Relu>().linearGroups().empty());
}

namespace {

/// The attribute values of a case, completed with the definition's defaults.
std::vector<double> attributeValues(const user_op::OpDef &def, const user_op::Case &c) {
  if (!def.scalar->attributes) return {};
  user_op::OpConf conf;
  conf.type = def.name;
  for (const auto &a : def.attrs)
    if (!a.defaultValue.empty()) conf.attrs[a.name] = a.defaultValue;
  for (const auto &[name, value] : c.attrs()) conf.attrs[name] = value;
  std::vector<double> values;
  for (const ScalarValue &v : def.scalar->attributes(user_op::UserOpConfWrapper(conf), kDouble))
    values.push_back(v.real);
  return values;
}

/// Central differences at two step sizes; NaN where they disagree, which is at kinks.
double difference(const ScalarProgram &p, std::vector<double> at, size_t i) {
  auto slope = [&](double h) {
    std::vector<double> lo = at, hi = at;
    lo[i] -= h;
    hi[i] += h;
    return (p.evaluate(hi) - p.evaluate(lo)) / (hi[i] - lo[i]);
  };
  const double h = 1e-4 * std::max(1.0, std::fabs(at[i]));
  const double coarse = slope(h), fine = slope(h / 2);
  if (std::fabs(coarse - fine) > 1e-4 * std::max(1.0, std::fabs(fine))) return std::nan("");
  return (4 * fine - coarse) / 3;
}

} // namespace

TEST_CASE("the derivative of every registered scalar function matches central differences", "[scalar]") {
  std::mt19937 random(3);
  int functions = 0;
  for (const user_op::OpDef *def : test::registry().ops()) {
    if (!def->scalar || def->noGrad || def->cases.empty()) continue;
    const user_op::Case &c = def->cases[0];
    const std::vector<double> attrs = attributeValues(*def, c);
    const ScalarProgram &p = *def->scalar;
    ++functions;
    for (int32_t i = 0; i < p.inputs(); ++i) {
      const auto d = p.derivative(i);
      INFO(def->name << ": " << p.text());
      REQUIRE(d.isOk());
      INFO("d/d" << p.parameterNames()[static_cast<size_t>(i)] << ": " << (*d).text());
      int compared = 0;
      for (int sample = 0; sample < 60; ++sample) {
        std::vector<double> at;
        for (const user_op::CaseInput &in : c.inputs()) {
          // Conditions and masks are 0 or 1; everything else is drawn from the case's range.
          const double u = static_cast<double>(random()) / 4294967296.0;
          at.push_back(in.type == kBool ? static_cast<double>(random() % 2) : in.lo + (in.hi - in.lo) * u);
        }
        if (c.inputs()[static_cast<size_t>(i)].type == kBool) continue;
        at.insert(at.end(), attrs.begin(), attrs.end());
        const double expected = difference(p, at, static_cast<size_t>(i));
        if (std::isnan(expected)) continue;
        ++compared;
        INFO("at " << at[0] << (at.size() > 1 ? ", " + std::to_string(at[1]) : ""));
        REQUIRE((*d).evaluate(at) == Approx(expected).epsilon(1e-6).margin(1e-7));
      }
      if (c.inputs()[static_cast<size_t>(i)].type != kBool) CHECK(compared > 40);
    }
  }
  CHECK(functions > 70);
}
