// Matrix products, vector products and bias_add against plain loops.
// SPDX-License-Identifier: Apache-2.0
#include "DnnlGemm.h"
#include "OpCall.h"
#include "Parallel.h"

#include <catch2/catch.hpp>
#include <cstring>

using namespace opc;
using namespace opc::test;

namespace {

/// op(a)[m,k] * op(b)[k,n] at given offsets.
std::vector<double> product(const TestTensor &a, const TestTensor &b, int64_t m, int64_t n, int64_t k, bool ta, bool tb,
                            int64_t a0 = 0, int64_t b0 = 0) {
  std::vector<double> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double s = 0;
      for (int64_t p = 0; p < k; ++p)
        s += a.values[static_cast<size_t>(a0 + (ta ? p * m + i : i * k + p))] *
             b.values[static_cast<size_t>(b0 + (tb ? j * k + p : p * n + j))];
      c[static_cast<size_t>(i * n + j)] = s;
    }
  return c;
}

} // namespace

TEST_CASE("matmul equals plain loops for odd shapes, transposes and all types", "[library]") {
  for (DataType type : {kFloat, kDouble, kFloat16, kBFloat16, kInt32})
    for (auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                           {3, 5, 7},
                           {1, 33, 65},
                           {2, 17, 300},
                           {37, 1, 19},
                           {100, 70, 130},
                           {17, 600, 520},
                           {197, 50, 300},
                           {4, 4, 0},
                           {1, 2100, 9}})
      for (int f = 0; f < 4; ++f) {
        const bool ta = f & 1, tb = f & 2;
        const double range = type == kInt32 ? 9 : 1;
        OpCall call{"matmul",
                    {{"a", randomTensor(type, ta ? Shape{k, m} : Shape{m, k}, 1, -range, range)},
                     {"b", randomTensor(type, tb ? Shape{n, k} : Shape{k, n}, 2, -range, range)}},
                    {{"transpose_a", ta}, {"transpose_b", tb}},
                    {},
                    {}};
        INFO(dataTypeName(type) << " " << m << " " << n << " " << k << " " << ta << tb);
        const auto out = runEverywhere(call).at("out");
        REQUIRE(out.shape() == Shape{m, n});
        const double tolerance = toleranceOf(type) * (type == kFloat ? 3 : 1);
        requireClose(out, product(call.inputs[0].second, call.inputs[1].second, m, n, k, ta, tb), tolerance,
                     tolerance * 4);
      }
}

TEST_CASE("matmul scales and adds", "[library]") {
  for (DataType type : {kFloat, kDouble, kInt32, kBFloat16}) {
    OpCall call{"matmul",
                {{"a", randomTensor(type, {5, 400}, 1, -3, 3)},
                 {"b", randomTensor(type, {400, 9}, 2, -3, 3)},
                 {"_add_to_output", randomTensor(type, {5, 9}, 3, -3, 3)}},
                {{"alpha", 2.0}},
                {},
                {}};
    auto expected = product(call.inputs[0].second, call.inputs[1].second, 5, 9, 400, false, false);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = 2 * expected[i] + call.inputs[2].second.values[i];
    requireClose(runEverywhere(call).at("out"), expected, toleranceOf(type), toleranceOf(type) * 10);
  }
}

TEST_CASE("batches are independent products, and broadcast", "[library]") {
  OpCall call{"batch_matmul",
              {{"a", randomTensor(kFloat, {2, 3, 20, 64}, 1)}, {"b", randomTensor(kFloat, {2, 3, 50, 64}, 2)}},
              {{"transpose_b", true}},
              {},
              {}};
  auto out = runEverywhere(call).at("out");
  REQUIRE(out.shape() == Shape{2, 3, 20, 50});
  std::vector<double> expected;
  for (int i = 0; i < 6; ++i) {
    const auto c =
        product(call.inputs[0].second, call.inputs[1].second, 20, 50, 64, false, true, i * 20 * 64, i * 50 * 64);
    expected.insert(expected.end(), c.begin(), c.end());
  }
  requireClose(out, expected, 1e-5, 1e-5);

  call = {"broadcast_matmul",
          {{"a", randomTensor(kDouble, {2, 1, 3, 4}, 1)}, {"b", randomTensor(kDouble, {5, 4, 6}, 2)}},
          {},
          {},
          {}};
  out = runEverywhere(call).at("out");
  REQUIRE(out.shape() == Shape{2, 5, 3, 6});
  expected.clear();
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 5; ++j) {
      const auto c = product(call.inputs[0].second, call.inputs[1].second, 3, 6, 4, false, false, i * 12, j * 24);
      expected.insert(expected.end(), c.begin(), c.end());
    }
  requireClose(out, expected, 1e-12, 1e-12);

  call = {"broadcast_matmul",
          {{"a", randomTensor(kFloat, {2, 3, 5, 7}, 1)}, {"b", randomTensor(kFloat, {7, 40}, 2)}},
          {},
          {},
          {}};
  out = runEverywhere(call).at("out");
  REQUIRE(out.shape() == Shape{2, 3, 5, 40});
  requireClose(out, product(call.inputs[0].second, call.inputs[1].second, 30, 40, 7, false, false), 1e-5, 1e-5);
  call = {"broadcast_matmul",
          {{"a", randomTensor(kFloat, {0, 3, 5}, 1)}, {"b", randomTensor(kFloat, {1, 5, 4}, 2)}},
          {},
          {},
          {}};
  REQUIRE(runEverywhere(call).at("out").shape() == Shape{0, 3, 4});
}

TEST_CASE("oneDNN's blocks give the same product", "[library]") {
  for (auto [m, n, k] : {std::array<int64_t, 3>{300, 40, 70}, {20, 600, 33}})
    for (int f = 0; f < 8; ++f) {
      cpu::GemmShape shape{m, n, k, bool(f & 1), bool(f & 2), 0.5, bool(f & 4)};
      const TestTensor a = randomTensor(kFloat, {m * k}, 1), b = randomTensor(kFloat, {k * n}, 2);
      auto expected = product(a, b, m, n, k, shape.transA, shape.transB);
      for (double &v : expected) v = 0.5 * v + (shape.accumulate ? 1 : 0);
      std::vector<float> first;
      for (bool constant : {false, true})
        for (int threads : {1, 2}) {
          const float *pa = a.dptr<float>(), *pb = b.dptr<float>();
          cpu::DnnlGemm gemm(shape, cpu::GemmBatch(), constant ? pb : nullptr);
          DeviceCtx ctx(DeviceType::kCPU, threads, cpu::parallelFor);
          std::vector<float> out(static_cast<size_t>(m * n), 1.0f);
          gemm.run(&ctx, pa, pb, out.data());
          requireClose(tensorOf<float>({m, n}, out), expected, 1e-5, 1e-5);
          if (!constant && threads == 2) REQUIRE(first == out);
          if (threads == 1) first = out;
        }
    }
}

TEST_CASE("vector products and dot", "[library]") {
  for (DataType type : {kFloat, kDouble, kBFloat16, kInt32}) {
    const double range = type == kInt32 ? 9 : 1;
    OpCall call{
        "matrix_vector_product",
        {{"a", randomTensor(type, {37, 45}, 1, -range, range)}, {"b", randomTensor(type, {45}, 2, -range, range)}},
        {},
        {},
        {}};
    auto out = runEverywhere(call).at("out");
    REQUIRE(out.shape() == Shape{37});
    requireClose(out, product(call.inputs[0].second, call.inputs[1].second, 37, 1, 45, false, false), toleranceOf(type),
                 toleranceOf(type));
    call = {"vector_matrix_product",
            {{"a", randomTensor(type, {45}, 1, -range, range)}, {"b", randomTensor(type, {45, 37}, 2, -range, range)}},
            {},
            {},
            {}};
    out = runEverywhere(call).at("out");
    REQUIRE(out.shape() == Shape{37});
    requireClose(out, product(call.inputs[0].second, call.inputs[1].second, 1, 37, 45, false, false), toleranceOf(type),
                 toleranceOf(type));
  }
  for (int64_t n : {int64_t{0}, int64_t{5}, int64_t{100001}}) {
    OpCall call{"dot", {{"x", randomTensor(kFloat, {n}, 1)}, {"y", randomTensor(kFloat, {n}, 2)}}, {}, {}, {}};
    const auto out = runEverywhere(call).at("out");
    REQUIRE(out.shape() == Shape{});
    requireClose(out, product(call.inputs[0].second, call.inputs[1].second, 1, 1, n, false, false), 1e-4, 1e-3);
  }
}

TEST_CASE("bias_add", "[library]") {
  for (DataType type : {kFloat, kDouble, kFloat16, kBFloat16, kInt32, kInt64})
    for (int32_t axis : {0, 1, 2, -1}) {
      OpCall call{
          "bias_add", {{"a", randomTensor(type, {3, 5, 7}, 1, -9, 9)}, {"b", TestTensor()}}, {{"axis", axis}}, {}, {}};
      const int64_t at = axis < 0 ? axis + 3 : axis;
      const Shape shape{3, 5, 7};
      call.inputs[1].second = randomTensor(type, {shape.At(at)}, 2, -9, 9);
      std::vector<double> expected;
      for (int64_t i = 0; i < 105; ++i)
        expected.push_back(call.inputs[0].second.values[static_cast<size_t>(i)] +
                           call.inputs[1].second.values[static_cast<size_t>(i / shape.Count(at + 1) % shape.At(at))]);
      requireClose(runEverywhere(call).at("out"), expected, toleranceOf(type), toleranceOf(type));
    }
}

TEST_CASE("matrix products say what does not fit and how it would", "[library]") {
  const auto call = [](const char *op, DataType ta, Shape a, DataType tb, Shape b) {
    return errorOf({op, {{"a", randomTensor(ta, a, 1)}, {"b", randomTensor(tb, b, 2)}}, {}, {}, {}});
  };
  CHECK(call("matmul", kFloat, {32, 784}, kFloat, {512, 784}) ==
        "OPC0203: matmul: inner dimensions differ (784 vs 512): a is f32[32,784], b is f32[512,784]; "
        "help: transpose_b: true would give f32[32,512]");
  CHECK_THAT(call("matmul", kFloat, {784, 32}, kFloat, {784, 512}),
             Catch::Contains("transpose_a: true would give f32[32,512]"));
  CHECK_THAT(call("matmul", kFloat, {2, 3}, kFloat, {4, 5}), !Catch::Contains("would give"));
  CHECK_THAT(call("matmul", kFloat, {2, 3}, kDouble, {3, 5}), Catch::Contains("element types must be the same"));
  CHECK_THAT(call("matmul", kFloat, {}, kFloat, {3, 5}), Catch::Contains("rank 1 or more"));
  CHECK_THAT(call("matmul", kFloat, {4}, kFloat, {3, 5}),
             Catch::Contains("inner dimensions differ (4 vs 3): a is f32[4], b is f32[3,5]"));
  CHECK_THAT(call("matmul", kFloat, {2, 2, 3}, kFloat, {4, 3, 5}), Catch::Contains("do not broadcast (2 vs 4)"));
  CHECK_THAT(call("batch_matmul", kFloat, {2, 2, 3}, kFloat, {4, 3, 5}), Catch::Contains("batch dimensions differ"));
  CHECK_THAT(call("broadcast_matmul", kFloat, {2, 2, 3}, kFloat, {4, 3, 5}),
             Catch::Contains("do not broadcast (2 vs 4)"));
  CHECK_THAT(call("matrix_vector_product", kFloat, {2, 3}, kFloat, {4}),
             Catch::Contains("inner dimensions differ (3 vs 4)"));
  CHECK_THAT(errorOf({"bias_add",
                      {{"a", randomTensor(kFloat, {2, 3}, 1)}, {"b", randomTensor(kFloat, {2}, 2)}},
                      {{"axis", int32_t{1}}},
                      {},
                      {}}),
             Catch::Contains("b must be a vector of 3 elements"));
}
