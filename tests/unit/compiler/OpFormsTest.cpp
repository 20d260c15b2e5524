// What rules and kernels say of an op is asked once for all ops that are the same but for names, and never of others.
// SPDX-License-Identifier: Apache-2.0
#include "Pipeline.h"
#include "TestRegistry.h"

#include "opc/Op.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace opc;
using opc::test::registry;

namespace {

/// How often each of an op's rules was asked.
struct Questions {
  int shape = 0, workspace = 0, inPlace = 0;
  bool operator==(const Questions &o) const {
    return shape == o.shape && workspace == o.workspace && inPlace == o.inPlace;
  }
};
Questions gAsked;

class NoKernel final : public user_op::OpKernel {
public:
  void Compute(user_op::KernelComputeContext *) const override {}
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

REGISTER_USER_OP("forms_test_step")
    .Input("in")
    .Output("out")
    .Attr<int64_t>("scratch", 64)
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      ++gAsked.shape;
      *ctx->Shape4ArgNameAndIndex("out", 0) = ctx->InputShape("in", 0);
      return Maybe<void>::Ok();
    });
REGISTER_USER_KERNEL("forms_test_step")
    .SetCreateFn<NoKernel>()
    .SetIsMatchedHob((user_op::HobDeviceTag() == "cpu") & (user_op::HobDataType("in", 0) == kFloat))
    .SetInferTmpSizeFn([](user_op::InferContext *ctx) -> size_t {
      ++gAsked.workspace;
      return static_cast<size_t>(ctx->Attr<int64_t>("scratch"));
    })
    .SetInplaceProposalFn([](const user_op::InferContext &, user_op::AddInplaceArgPair add) -> Maybe<void> {
      ++gAsked.inPlace;
      return add("out", 0, "in", 0, true);
    });

std::string input(const std::string &name, int width) {
  return "op { name: \"" + name + "\" input_conf { out: \"out\" blob_conf { shape { dim: " + std::to_string(width) +
         " } data_type: kFloat } } }\n";
}
std::string output(const std::string &name, const std::string &in) {
  return "op { name: \"" + name + "\" output_conf { in: \"" + in + "\" } }\n";
}
std::string step(const std::string &name, const std::string &in, int scratch) {
  return "op { name: \"" + name + "\" user_conf { op_type_name: \"forms_test_step\" input { key: \"in\" value { s: \"" +
         in + "\" } } attr { key: \"scratch\" value { at_int64: " + std::to_string(scratch) + " } } } }\n";
}
std::string tanh(const std::string &name, const std::string &in, const std::string &more = "") {
  return "op { name: \"" + name + "\" " + more + "user_conf { op_type_name: \"tanh\" input { key: \"x\" value { s: \"" +
         in + "\" } } } }\n";
}

/// A chain of `count` steps, the workspace of each the next of `sizes`.
std::string chain(int count, const std::vector<int> &sizes) {
  std::string graph = input("x", 8), at = "x/out";
  for (int i = 0; i < count; ++i) {
    const std::string name = "s" + std::to_string(i);
    graph += step(name, at, sizes[static_cast<size_t>(i) % sizes.size()]);
    at = name + "/out_0";
  }
  return graph + output("y", at);
}

Questions asked(const std::string &graph) {
  CompileOptions options;
  options.verifyEach = false; // which asks the rule of each op for each pass
  Pipeline p(registry(), options);
  gAsked = {};
  REQUIRE(p.import("g.pbtxt", graph));
  REQUIRE(p.run(Phase::kPlan));
  return gAsked;
}

std::vector<FusionFacts::Region> regions(const std::string &graph) {
  Pipeline p(registry(), {});
  REQUIRE(p.import("g.pbtxt", graph));
  REQUIRE(p.run(Phase::kPlan));
  return p.fusion().regions;
}

} // namespace

TEST_CASE("rules are asked as often of many equal ops as of few", "[forms]") {
  const Questions few = asked(chain(5, {64}));
  REQUIRE(few.shape > 0);
  REQUIRE(few.workspace > 0);
  REQUIRE(few.inPlace > 0);
  REQUIRE(asked(chain(700, {64})) == few);
  // Two forms are asked about twice.
  const Questions two = asked(chain(700, {64, 4096}));
  REQUIRE(two.shape == 2 * few.shape);
  REQUIRE(two.workspace == 2 * few.workspace);
  REQUIRE(two.inPlace == 2 * few.inPlace);
}

TEST_CASE("attributes and shapes make another form", "[forms]") {
  CompileOptions options;
  Pipeline p(registry(), options);
  REQUIRE(p.import("g.pbtxt", chain(4, {64, 4096})));
  REQUIRE(p.run(Phase::kPlan));
  std::vector<uint64_t> sizes;
  for (const MemoryFacts::Slot &slot : p.memory().slots)
    if (slot.kind == "workspace") sizes.push_back(slot.bytes);
  REQUIRE(sizes == std::vector<uint64_t>{64, 4096, 64, 4096});
}

TEST_CASE("an op with its place by control is in no region, whatever its form has said of others", "[forms]") {
  const auto graph = [](const std::string &more) {
    return input("x", 8) + tanh("a", "x/out") + tanh("b", "a/y_0") + tanh("c", "b/y_0", more) + tanh("d", "c/y_0") +
           tanh("e", "d/y_0") + output("y", "e/y_0");
  };
  const auto free = regions(graph(""));
  REQUIRE(free.size() == 1);
  REQUIRE(free[0].ops == std::vector<std::string>{"a", "b", "c", "d", "e"});
  const auto held = regions(graph("ctrl_in_op_name: \"b\" "));
  REQUIRE(held.size() == 1); // who waits and who is waited for have their places
  REQUIRE(held[0].ops == std::vector<std::string>{"d", "e"});
  // And the other way round: the first of the form is held.
  const auto first = regions(input("x", 8) + tanh("z", "x/out") + tanh("a", "x/out", "ctrl_in_op_name: \"z\" ") +
                             tanh("b", "a/y_0") + tanh("c", "b/y_0") + output("y", "c/y_0") + output("w", "z/y_0"));
  REQUIRE(first.size() == 1);
  REQUIRE(first[0].ops == std::vector<std::string>{"b", "c"});
}
