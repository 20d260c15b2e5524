// The gradient operators that the registry makes of elementwise ops.
// SPDX-License-Identifier: Apache-2.0
#include "OpCall.h"
#include "opc/Scalar.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

using namespace opc;
using namespace opc::test;

namespace {

/// Textbook derivatives: the judge of the symbolic ones.
struct Known {
  const char *op;
  double lo, hi;
  std::function<double(double)> derivative;
};
const Known kKnown[] = {
    {"exp", -2, 2, [](double x) { return std::exp(x); }},
    {"log", 0.2, 3, [](double x) { return 1 / x; }},
    {"sqrt", 0.2, 3, [](double x) { return 0.5 / std::sqrt(x); }},
    {"sin", -3, 3, [](double x) { return std::cos(x); }},
    {"atan", -3, 3, [](double x) { return 1 / (1 + x * x); }},
    {"erf", -2, 2, [](double x) { return 2 / std::sqrt(M_PI) * std::exp(-x * x); }},
    {"softsign", -3, 3, [](double x) { return 1 / ((1 + std::fabs(x)) * (1 + std::fabs(x))); }},
};

} // namespace

TEST_CASE("Derived gradients have the textbook's values in every type, at every size and thread count") {
  for (const Known &k : kKnown)
    for (DataType type : {kFloat, kDouble, kFloat16, kBFloat16})
      for (int64_t n : {1, 127, 128, 129, 40000}) {
        INFO(k.op << " " << dataTypeName(type) << " " << n);
        OpCall call;
        call.op = std::string(k.op) + "_grad";
        const TestTensor x = randomTensor(type, Shape({n}), 3, k.lo, k.hi), dy = randomTensor(type, Shape({n}), 4);
        call.inputs = {{"dy", dy}};
        for (const auto &in : registry().findOp(call.op)->inputs)
          if (in.name != "dy") call.inputs.push_back({in.name, x});
        const auto out = runEverywhere(call);
        std::vector<double> expected;
        for (size_t i = 0; i < x.values.size(); ++i) expected.push_back(k.derivative(x.values[i]) * dy.values[i]);
        const double tolerance = type == kDouble ? 1e-12 : type == kFloat ? 2e-6 : toleranceOf(type);
        requireClose(out.at("dx"), expected, tolerance, tolerance * 0.1);
      }
}

TEST_CASE("Derived gradients take attributes and broadcast") {
  OpCall call;
  call.op = "leaky_relu_grad";
  call.inputs = {{"x", tensorOf(kFloat, Shape({3}), {-1, 2, -3})}, {"dy", tensorOf(kFloat, Shape({3}), {1, 10, 100})}};
  call.attrs["alpha"] = AttrValue(0.5f);
  requireClose(runEverywhere(call).at("dx"), {0.5, 10, 50}, 1e-6, 0);

  call = OpCall();
  call.op = "broadcast_pow_y_grad";
  call.inputs = {{"x", tensorOf(kDouble, Shape({2, 1}), {2, 3})},
                 {"y", tensorOf(kDouble, Shape({3}), {1, 2, 3})},
                 {"dy", tensorOf(kDouble, Shape({2, 3}), {1, 1, 1, 1, 1, 1})}};
  const double a = std::log(2), b = std::log(3);
  requireClose(runEverywhere(call).at("dx"), {2 * a, 4 * a, 8 * a, 3 * b, 9 * b, 27 * b}, 1e-12, 0);
}

TEST_CASE("Derivatives of derivatives exist by name") {
  const user_op::OpDef *second = registry().findOp("sin_grad_x_grad");
  REQUIRE(second);
  OpCall call;
  call.op = "sin_grad_x_grad";
  for (const auto &in : second->inputs)
    call.inputs.push_back({in.name, tensorOf(kDouble, Shape({1}), {in.name == "x" ? 0.5 : 1})});
  requireClose(runEverywhere(call).at("dx"), {-std::sin(0.5)}, 1e-12, 0);
  // The same object for the same name, and its kernels.
  CHECK(registry().findOp("sin_grad_x_grad") == second);
  CHECK(registry().kernels("sin_grad_x_grad").size() == 4);
}

TEST_CASE("Names that are no derived gradients are unknown, whatever they look like") {
  for (const char *name :
       {"_grad", "nothing_grad", "matmul_grad", "sin_y_grad", "floor_grad", "sin_grad_grad", "_grad_grad"})
    CHECK_FALSE(registry().findOp(name));
  std::string hostile = "sin";
  for (int i = 0; i < 5000; ++i) hostile += "_grad";
  CHECK_FALSE(registry().findOp(hostile));
  // Every prefix is tried once, not once for each way to reach it.
  hostile = "x";
  for (int i = 0; i < 24; ++i) hostile += "_grad";
  CHECK_FALSE(registry().findOp(hostile));
}
