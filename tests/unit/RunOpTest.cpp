// One op by itself: memory, kernel state, what it refuses.
// SPDX-License-Identifier: Apache-2.0
#include "OpCall.h"

#include <catch2/catch.hpp>

using namespace opc;
using namespace opc::test;

namespace {

user_op::TensorDesc f32(Shape shape) { return {std::move(shape), kFloat}; }

OpInstance made(const SingleOp &op) {
  auto instance = instanceOf(registry(), op);
  INFO(instance.status().toString());
  REQUIRE(instance);
  return *instance;
}

} // namespace

TEST_CASE("a tensor of one op fills whole cache lines from the start of one", "[runop]") {
  for (int64_t n : {0, 1, 16, 17}) {
    OpTensor t(f32({n}));
    CHECK(reinterpret_cast<uintptr_t>(t.data()) % 64 == 0);
    CHECK(t.bytes() == static_cast<size_t>(n) * 4);
    const OpTensor copy = t;
    CHECK(copy == t);
    if (n == 0) continue;
    t.mut_dptr<float>()[n - 1] = 1;
    CHECK(copy != t);
  }
  CHECK(OpTensor(f32({2, 3})) != OpTensor(f32({3, 2})));
}

TEST_CASE("inputs come in any order, and an argument may have several", "[runop]") {
  const TestTensor a = tensorOf<float>({1, 2}, {1, 2}), b = tensorOf<float>({2, 1}, {10, 100});
  CHECK(runAs<float>({"matmul", {{"b", b}, {"a", a}}, {}, {}, {}}) == std::vector<float>{210});
  CHECK(runAs<float>({"concat", {{"in", a}, {"in", a}}, {{"axis", int64_t{0}}}, {}, {}}) ==
        std::vector<float>{1, 2, 1, 2});
}

TEST_CASE("an op that writes its inputs writes those it is given", "[runop]") {
  const OpInstance op =
      made({"sgd_update", {{"model", f32({2})}, {"model_diff", f32({2})}}, {{"learning_rate_val", 0.5f}}, {}});
  std::vector<OpTensor> inputs{tensorOf<float>({2}, {1, 2}), tensorOf<float>({2}, {2, 4})}, outputs;
  REQUIRE(runOp(registry(), op, &inputs, &outputs).isOk());
  CHECK(TestTensor(inputs[0]).as<float>() == std::vector<float>{0, 0});
  CHECK(outputs.empty());
}

TEST_CASE("the state of a kernel goes on from run to run", "[runop]") {
  const OpCall call{"uniform",
                    {},
                    {{"dtype", kFloat}, {"shape", Shape({8})}, {"from", 0.0}, {"to", 1.0}, {"seed", int64_t{7}}},
                    {},
                    {}};
  CHECK((*tryOp(call))[0] == (*tryOp(call))[0]);
  CHECK((*tryOp(call, {1, 2, {}}))[0] != (*tryOp(call))[0]);
}

TEST_CASE("an output takes an input's memory where the kernel offers it", "[runop]") {
  const OpInstance op = made({"relu", {{"x", f32({3})}}, {}, {}});
  std::vector<OpTensor> inputs{tensorOf<float>({3}, {-1, 0, 2})}, outputs;
  RunOpOptions options;
  options.inplace = {{0, 0}};
  REQUIRE(runOp(registry(), op, &inputs, &outputs, options).isOk());
  CHECK(TestTensor(outputs[0]).as<float>() == std::vector<float>{0, 0, 2});
  CHECK(inputs[0] == outputs[0]);
  const OpInstance product = made({"matmul", {{"a", f32({1, 1})}, {"b", f32({1, 1})}}, {}, {}});
  inputs = {tensorOf<float>({1, 1}, {3}), tensorOf<float>({1, 1}, {4})};
  const Status refused = runOp(registry(), product, &inputs, &outputs, options);
  CHECK(refused.id() == "OPC0302");
  CHECK(refused.message().find("output 0 in the memory of input 0") != std::string::npos);
}

TEST_CASE("what does not fit is an error: ops, kernels, sizes", "[runop]") {
  CHECK(instanceOf(registry(), {"no_such_op", {}, {}, {}}).status().id() == "OPC0201");
  CHECK(instanceOf(registry(), {"relu", {}, {}, {}}).status().id() == "OPC0202");
  std::vector<OpTensor> inputs{OpTensor(f32({1024}))}, outputs;
  const OpInstance op = made({"relu", {{"x", f32({1024})}}, {}, {}});
  RunOpOptions options;
  options.maxOutputBytes = 4095;
  CHECK(runOp(registry(), op, &inputs, &outputs, options).message().find("result of 4096 bytes") != std::string::npos);
  options.maxOutputBytes = 4096;
  CHECK(runOp(registry(), op, &inputs, &outputs, options).isOk());
  const OpInstance chars = made({"relu", {{"x", user_op::TensorDesc({4}, kBool)}}, {}, {}});
  inputs = {OpTensor(user_op::TensorDesc({4}, kBool))};
  CHECK(runOp(registry(), chars, &inputs, &outputs).id() == "OPC0411");
}
