// cast, constants, sequences, add_n.
// SPDX-License-Identifier: Apache-2.0
#include "OpCall.h"
#include "opc/ElementTypes.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace opc;
using namespace opc::test;

TEST_CASE("cast truncates, saturates, wraps and rounds as documented", "[type]") {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  const TestTensor x = tensorOf<float>({6}, {-1.7f, 1.7f, nan, inf, -inf, 300.f});
  CHECK(runAs<int32_t>({"cast", {{"in", x}}, {{"dtype", kInt32}}, {}}) ==
        std::vector<int32_t>{-1, 1, 0, INT32_MAX, INT32_MIN, 300});
  CHECK(runAs<int64_t>({"cast", {{"in", x}}, {{"dtype", kInt64}}, {}}) ==
        std::vector<int64_t>{-1, 1, 0, INT64_MAX, INT64_MIN, 300});
  CHECK(runAs<uint8_t>({"cast", {{"in", x}}, {{"dtype", kUInt8}}, {}}) == std::vector<uint8_t>{0, 1, 0, 255, 0, 255});
  CHECK(runAs<bool>({"cast", {{"in", tensorOf<float>({3}, {0.f, -0.f, nan})}}, {{"dtype", kBool}}, {}}) ==
        std::vector<bool>{false, false, true});
  CHECK(runAs<int8_t>({"cast", {{"in", tensorOf<int64_t>({2}, {300, -129})}}, {{"dtype", kInt8}}, {}}) ==
        std::vector<int8_t>{44, 127});
  // One rounding from f64: through f32 this would be a tie and go down to even.
  const double justAbove = 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40);
  const TestTensor half = run({"cast", {{"in", tensorOf<double>({1}, {justAbove})}}, {{"dtype", kFloat16}}, {}})[0];
  CHECK(static_cast<float>(half.as<float16>()[0]) == 1.0f + std::ldexp(1.0f, -10));
  for (DataType from : dataTypes<types::All>())
    for (DataType to : dataTypes<types::All>()) {
      const float zero = from == kFloat8E8M0 || to == kFloat8E8M0 ? 1 : 0; // it has none
      const TestTensor ones = run({"cast", {{"in", tensorOf<float>({3}, {zero, 1, 1})}}, {{"dtype", from}}, {}})[0];
      const TestTensor cast = run({"cast", {{"in", ones}}, {{"dtype", to}}, {}})[0];
      const TestTensor back = run({"cast", {{"in", cast}}, {{"dtype", kFloat}}, {}})[0];
      INFO(dataTypeName(from) << " to " << dataTypeName(to));
      CHECK(back.as<float>() == std::vector<float>{zero, 1, 1});
    }
}

TEST_CASE("constants and sequences", "[source]") {
  CHECK(runAs<float>({"constant",
                      {},
                      {{"shape", Shape({2})}, {"dtype", kFloat}, {"floating_value", 1.5}, {"is_floating_value", true}},
                      {}}) == std::vector<float>{1.5f, 1.5f});
  CHECK(runAs<int64_t>(
            {"constant_like", {{"like", iota<float>({2})}}, {{"integer_value", int64_t{-3}}, {"dtype", kInt64}}, {}}) ==
        std::vector<int64_t>{-3, -3});
  CHECK(runAs<bool>({"ones_like", {{"like", tensorOf<bool>({1}, {false})}}, {}, {}}) == std::vector<bool>{true});
  CHECK(runAs<int32_t>({"arange",
                        {},
                        {{"dtype", kInt32},
                         {"integer_start", int64_t{5}},
                         {"integer_delta", int64_t{-2}},
                         {"integer_limit", int64_t{-1}}},
                        {}}) == std::vector<int32_t>{5, 3, 1});
  CHECK(runAs<int32_t>({"range",
                        {},
                        {{"dtype", kInt32}, {"start", int64_t{0}}, {"delta", int64_t{2}}, {"limit", int64_t{3}}},
                        {}}) == std::vector<int32_t>{0, 2});
  CHECK(errorOf({"arange", {}, {{"dtype", kInt32}, {"integer_delta", int64_t{0}}}, {}}).find("step is 0") !=
        std::string::npos);
  CHECK(errorOf({"arange",
                 {},
                 {{"dtype", kInt8}, {"integer_start", int64_t{INT64_MIN}}, {"integer_limit", int64_t{INT64_MAX}}},
                 {}})
            .find("2^63") != std::string::npos);
  CHECK(runAs<float>({"eye", {}, {{"dtype", kFloat}, {"rows", int64_t{2}}, {"cols", int64_t{3}}}, {}}) ==
        std::vector<float>{1, 0, 0, 0, 1, 0});
}

TEST_CASE("add_n adds in order, wraps integers, and widens halves", "[type]") {
  CHECK(
      runAs<int8_t>({"add_n", {{"in", tensorOf<int8_t>({1}, {100})}, {"in", tensorOf<int8_t>({1}, {100})}}, {}, {}}) ==
      std::vector<int8_t>{-56});
  OpCall call{"add_n", {}, {}, {}};
  for (int i = 0; i < 5; ++i) call.inputs.push_back({"in", tensorOf<float16>({1}, {float16(i == 0 ? 2048.f : 1.f)})});
  CHECK(static_cast<float>(runAs<float16>(call)[0]) == 2052.f); // in f16, each 1 would be lost
  CHECK(errorOf({"add_n", {{"in", iota<float>({2})}, {"in", iota<float>({3})}}, {}, {}}).find("in_1 is (3)") !=
        std::string::npos);
}
