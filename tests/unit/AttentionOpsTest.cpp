// Attention: what its rule refuses, rows that see nothing, numbers of threads.
// SPDX-License-Identifier: Apache-2.0
#include "OpCall.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace opc;
using namespace opc::test;

namespace {

OpCall attention(Shape query, Shape key, Shape value) {
  OpCall call;
  call.op = "scaled_dot_product_attention";
  call.inputs = {{"query", randomTensor(kFloat, std::move(query), 1)},
                 {"key", randomTensor(kFloat, std::move(key), 2)},
                 {"value", randomTensor(kFloat, std::move(value), 3)}};
  return call;
}
OpCall with(OpCall call, const std::string &attr, AttrValue value) {
  call.attrs[attr] = std::move(value);
  return call;
}
OpCall lengths(OpCall call, DataType type, Shape shape) {
  call.inputs.push_back({"key_lengths", randomTensor(type, std::move(shape), 4)});
  return call;
}

} // namespace

TEST_CASE("attention says what does not fit and how it would", "[library][attention]") {
  const OpCall call = attention({2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 3});
  const auto says = [](const OpCall &bad, const std::string &text) { CHECK_THAT(errorOf(bad), Catch::Contains(text)); };
  says(attention({2, 4, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 3}), "a divisor of the queries'");
  says(attention({2, 4, 5, 8}, {2, 2, 7, 8}, {2, 4, 7, 3}), "value is f32[2,4,7,3]");
  says(attention({2, 4, 5, 8}, {1, 2, 7, 8}, {1, 2, 7, 3}), "key is f32[1,2,7,8]");
  says(attention({2, 4, 5, 8}, {2, 8, 7, 8}, {2, 8, 7, 3}), "key is f32[2,8,7,8]");
  says(with(call, "softcap", -1.0), "softcap is -1, expected a number that is not negative");
  says(with(call, "softcap", 1e300), "softcap is 1e+300, expected a number that is not negative, and at most 3.4");
  says(with(call, "scale", -1e300), "scale is -1e+300, expected at most 3.4");
  says(with(call, "window_left", int64_t{-2}), "window_left is -2, expected a number of keys");
  says(with(call, "window_right", int64_t{1} << 40), "-1 means all keys behind");
  says(with(call, "offset", int64_t{-2}), "-1 means that the last query stands at the last key");
  says(lengths(call, kFloat, {2}), "key_lengths is f32[2], expected i32 or i64");
  says(lengths(call, kInt32, {2, 4}), "key_lengths is i32[2,4], expected (2)");
  says(with(lengths(call, kInt32, {2}), "offset", int64_t{3}), "offset is 3 beside key_lengths");
  says(lengths(attention({5, 8}, {7, 8}, {7, 3}), kInt32, {}), "has no heads");
}

TEST_CASE("attention of a query that no key is for is 0", "[library][attention]") {
  // Place 0 and 1 of queries behind 20 keys of which a window of 2 is left: beyond the last key.
  const OpCall call =
      with(with(attention({1, 2, 2, 4}, {1, 1, 7, 4}, {1, 1, 7, 3}), "offset", int64_t{20}), "window_left", int64_t{2});
  const auto results = runEverywhere(call);
  for (double value : results.at("out").values) CHECK(value == 0);
  for (double value : results.at("log_sum").values) CHECK((std::isinf(value) && value < 0));
}

TEST_CASE("attention of a score that is NaN is NaN", "[library][attention]") {
  // The only key that is seen, in each lane of a vector and behind them.
  for (DataType type : {kFloat, kDouble})
    for (size_t at = 0; at < 9; ++at) {
      std::vector<double> key(9, 1), seen(9, 0);
      key[at] = std::nan("");
      seen[at] = 1;
      INFO(dataTypeName(type) << " " << at);
      const auto results = run({"scaled_dot_product_attention",
                                {{"query", tensorOf(type, {1, 1, 1}, {1})},
                                 {"key", tensorOf(type, {1, 9, 1}, key)},
                                 {"value", tensorOf(type, {1, 9, 1}, std::vector<double>(9, 1))},
                                 {"mask", tensorOf(kBool, {1, 9}, seen)}},
                                {},
                                {}});
      CHECK(std::isnan(results.at("out").values[0]));
      CHECK(std::isnan(results.at("log_sum").values[0]));
    }
}

TEST_CASE("attention gives the same for every number of threads", "[library][attention]") {
  // Heads that are rows of one product, and heads that are too large for that.
  for (int64_t n : {3, 210}) {
    runEverywhere(attention({1, 6, n, 16}, {1, 2, 1300, 16}, {1, 2, 1300, 8}));
    runEverywhere(with(attention({1, 6, n, 16}, {1, 3, 230, 16}, {1, 3, 230, 8}), "causal", true));
  }
}
