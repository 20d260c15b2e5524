// GradientRule: what a rule's steps hand to the generator.
// SPDX-License-Identifier: Apache-2.0
#include "opc/GradientRule.h"

#include <catch2/catch.hpp>

using namespace opc;
using namespace opc::user_op;

namespace {

/// A forward op "f" with inputs x [2,3] and bias [3], output y [2,3]; x needs no gradient.
class FakeHost final : public GradientHost {
public:
  bool needsGradient(const std::string &arg, int32_t) const override { return arg == "bias"; }
  bool hasGradient(const std::string &, int32_t) const override { return true; }
  std::string gradientOfOutput(const std::string &arg, int32_t index) override {
    return "dy_" + arg + "_" + std::to_string(index);
  }
  void bindGradientOfInput(const std::string &arg, int32_t index, const std::string &tensor) override {
    bound.push_back(arg + std::to_string(index) + "=" + tensor);
  }
  const TensorDesc *findDesc(const std::string &arg, int32_t index) const override {
    if (index != 0) return nullptr;
    return arg == "bias" ? &bias : arg == "x" || arg == "y" ? &whole : nullptr;
  }
  Status emit(OpConf *conf) override {
    if (conf->outputs.empty()) // completion adds the required outputs
      conf->outputs.push_back({conf->type == "reduce_sum_like" ? "y" : "out", {conf->name + "/made"}});
    emitted.push_back(*conf);
    return Status();
  }
  TensorDesc whole{Shape{2, 3}, kFloat}, bias{Shape{3}, kFloat};
  std::vector<OpConf> emitted;
  std::vector<std::string> bound;
};

OpConf forward() {
  OpConf conf;
  conf.name = "f";
  conf.type = "affine";
  conf.inputs = {{"x", {"x/out"}}, {"bias", {"b/out"}}};
  conf.outputs = {{"y", {"f/y_0"}}};
  conf.attrs["alpha"] = AttrValue(0.5);
  return conf;
}

} // namespace

TEST_CASE("a rule's ops are named after the forward op and its inputs get their gradients", "[gradient_rule]") {
  FakeHost host;
  BackwardOpConfContext ctx(forward(), &host);
  gradientRule([](GradientRule &g) {
    CHECK_FALSE(g.needs("x"));
    CHECK(g.needs("bias"));
    CHECK_FALSE(g.needs("bias", 1));
    CHECK_FALSE(g.hasInput("mask"));
    const std::string twice = g.scale(g.dy("y"), 2, "twice");
    const std::string sum = g.reduceLike(twice, g.shape("y"), g.x("bias"), g.shape("bias"), "sum");
    CHECK(g.reduceLike(sum, Shape{3}, "anything", Shape{3}, "none") == sum);
    g.bind("x", "ignored");
    g.bind("bias", sum);
    g.bind("bias", 5, "there is no such input");
  })(&ctx);
  REQUIRE(host.emitted.size() == 2);
  const OpConf &scale = host.emitted[0], &sum = host.emitted[1];
  CHECK(scale.name == "f_grad_twice");
  CHECK(scale.type == "scalar_mul");
  CHECK(scale.inputs.at(0).tensors.at(0) == "dy_y_0");
  CHECK(UserOpConfWrapper(scale).attr<double>("float_operand") == 2.0);
  CHECK(sum.name == "f_grad_sum");
  CHECK(UserOpConfWrapper(sum).attr<std::vector<int32_t>>("axis") == std::vector<int32_t>{0});
  CHECK(host.bound == std::vector<std::string>{"bias0=f_grad_sum/made"});
}

TEST_CASE("a rule copies attributes and asks for outputs", "[gradient_rule]") {
  FakeHost host;
  BackwardOpConfContext ctx(forward(), &host);
  gradientRule([](GradientRule &g) {
    auto op = g.add("affine_grad", "x");
    op.in("x", g.x("x")).in("dy", g.dy("y")).same({"alpha"}).output("dx").output("parts", 2);
    const std::string first = op.out("dx");
    CHECK(op.out("parts", 1) != first);
  })(&ctx);
  REQUIRE(host.emitted.size() == 1);
  CHECK(UserOpConfWrapper(host.emitted[0]).attr<double>("alpha") == 0.5);
  CHECK(UserOpConfWrapper(host.emitted[0]).output_size("parts") == 2);
}

TEST_CASE("a rule's mistakes are contract errors with the name of what is missing", "[gradient_rule]") {
  FakeHost host;
  BackwardOpConfContext ctx(forward(), &host);
  const auto run = [&](std::function<void(GradientRule &)> rule) { gradientRule(std::move(rule))(&ctx); };
  CHECK_THROWS_WITH(run([](GradientRule &g) { g.add("x", "a").same({"beta"}); }), Catch::Contains("beta"));
  CHECK_THROWS_WITH(run([](GradientRule &g) { (void)g.desc("mask"); }), Catch::Contains("mask"));
  CHECK_THROWS_AS(run([](GradientRule &g) {
                    g.scale(g.dy("y"), 1, "same");
                    g.scale(g.dy("y"), 2, "same");
                  }),
                  ContractError);
}
