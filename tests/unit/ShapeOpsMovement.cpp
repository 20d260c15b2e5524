// Data movement against index arithmetic written out: transpose, slices, joins, pads, flips, rolls, diagonals.
// SPDX-License-Identifier: Apache-2.0
#include "OpCall.h"

#include <catch2/catch.hpp>

using namespace opc;
using namespace opc::test;
using I32 = std::vector<int32_t>;
using I64 = std::vector<int64_t>;

TEST_CASE("transpose permutes, for every element size and every kind of loop", "[shape]") {
  auto check = [](auto tag, Shape in, I32 perm) {
    using T = decltype(tag);
    const TestTensor x = iota<T>(in);
    const TestTensor y = run({"transpose", {{"input", x}}, {{"perm", perm}}, {}})[0];
    const auto from = x.as<T>(), to = y.as<T>();
    const int64_t rank = in.NumAxes();
    for (int64_t i = 0; i < y.shape().elem_cnt(); ++i) {
      int64_t rest = i, at = 0;
      for (int64_t a = rank - 1; a >= 0; --a) {
        at += rest % y.shape().At(a) * in.Count(perm[static_cast<size_t>(a)] + 1);
        rest /= y.shape().At(a);
      }
      if (to[static_cast<size_t>(i)] != from[static_cast<size_t>(at)]) FAIL("element " << i << " of " << in.ToString());
    }
  };
  for (const auto &[shape, perm] : std::vector<std::pair<Shape, I32>>{{{5, 7}, {1, 0}},
                                                                      {{67, 130}, {1, 0}},
                                                                      {{256, 512}, {1, 0}},
                                                                      {{3, 40, 50}, {0, 2, 1}},
                                                                      {{3, 40, 50}, {2, 0, 1}},
                                                                      {{2, 3, 4, 5}, {0, 2, 1, 3}},
                                                                      {{2, 3, 1, 5}, {3, 2, 1, 0}},
                                                                      {{0, 3}, {1, 0}},
                                                                      {{}, {}}}) {
    check(uint8_t{}, shape, perm);
    check(int16_t{}, shape, perm);
    check(float{}, shape, perm);
    check(double{}, shape, perm);
  }
  check(float{}, {1600, 1700}, {1, 0}); // large enough for streaming stores
  CHECK(errorOf({"transpose", {{"input", iota<float>({2, 3})}}, {{"perm", I32{0, 0}}}, {}}).find("twice") !=
        std::string::npos);
  CHECK(errorOf({"transpose", {{"input", iota<float>({2, 3})}}, {{"perm", I32{0}}}, {}}).find("rank 2") !=
        std::string::npos);
}

TEST_CASE("reshape infers one dimension and refuses the impossible", "[shape]") {
  const TestTensor x = iota<float>({2, 3, 4});
  CHECK(run({"reshape", {{"in", x}}, {{"shape", Shape({-1, 6})}}, {}})[0].shape() == Shape({4, 6}));
  CHECK(run({"reshape", {{"in", iota<int64_t>({1})}}, {{"shape", Shape()}}, {}})[0].shape() == Shape());
  CHECK(run({"reshape", {{"in", iota<float>({0, 3})}}, {{"shape", Shape({3, 0})}}, {}})[0].shape() == Shape({3, 0}));
  CHECK(errorOf({"reshape", {{"in", x}}, {{"shape", Shape({-1, 5})}}, {}}).find("24 elements") != std::string::npos);
  CHECK(errorOf({"reshape", {{"in", x}}, {{"shape", Shape({-1, -1})}}, {}}).find("two dimensions") !=
        std::string::npos);
  CHECK(errorOf({"reshape", {{"in", x}}, {{"shape", Shape({5, 5})}}, {}}).find("has 25") != std::string::npos);
  CHECK(errorOf({"reshape", {{"in", x}}, {{"shape", Shape({int64_t{1} << 40, int64_t{1} << 40})}}, {}})
            .find("overflows") != std::string::npos);
  CHECK(run({"flatten", {{"in", x}}, {{"start_dim", 1}}, {}})[0].shape() == Shape({2, 12}));
  CHECK(run({"flatten", {{"in", iota<float>({})}}, {}, {}})[0].shape() == Shape({1}));
  CHECK(run({"expand_dims", {{"in", x}}, {{"axis", -1}}, {}})[0].shape() == Shape({2, 3, 4, 1}));
  CHECK(run({"squeeze", {{"in", iota<float>({1, 3, 1})}}, {{"axes", I32{0, -1}}}, {}})[0].shape() == Shape({3}));
  CHECK(errorOf({"squeeze", {{"in", x}}, {{"axes", I32{0}}}, {}}).find("size 2") != std::string::npos);
}

TEST_CASE("slice follows Python, negative steps and clamping included", "[shape]") {
  const TestTensor x = iota<int32_t>({6});
  auto sliced = [&](int64_t a, int64_t b, int64_t s) {
    return runAs<int32_t>({"slice", {{"x", x}}, {{"start", I64{a}}, {"stop", I64{b}}, {"step", I64{s}}}, {}});
  };
  CHECK(sliced(1, 5, 2) == I32{1, 3});
  CHECK(sliced(-2, 100, 1) == I32{4, 5});
  CHECK(sliced(-1, -7, -2) == I32{5, 3, 1});
  CHECK(sliced(4, 1, -1) == I32{4, 3, 2});
  CHECK(sliced(100, -100, -3) == I32{5, 2});
  CHECK(sliced(3, 3, 1).empty());
  CHECK(sliced(5, 2, 1).empty());
  CHECK(sliced(0, 6, INT64_MAX) == I32{0});
  CHECK(sliced(5, -7, INT64_MIN) == I32{5});
  CHECK(errorOf({"slice", {{"x", x}}, {{"start", I64{0}}, {"stop", I64{2}}, {"step", I64{0}}}, {}})
            .find("step of axis 0 is 0") != std::string::npos);
  const TestTensor y = run({"slice_update",
                            {{"x", iota<float>({2, 3})}, {"update", tensorOf<float>({2, 1}, {7, 8})}},
                            {{"start", I64{0, 1}}, {"stop", I64{2, 2}}, {"step", I64{1, 1}}},
                            {}})[0];
  CHECK(y.as<float>() == std::vector<float>{0, 7, 2, 3, 8, 5});
  CHECK(runAs<float>({"slice_grad",
                      {{"dy", tensorOf<float>({2}, {1, 2})}},
                      {{"like_shape", Shape({4})}, {"start", I64{3}}, {"stop", I64{-5}}, {"step", I64{-2}}},
                      {}}) == std::vector<float>{0, 2, 0, 1});
  CHECK(runAs<int32_t>(
            {"narrow", {{"in", x}}, {{"dim", int64_t{0}}, {"start", int64_t{2}}, {"length", int64_t{3}}}, {}}) ==
        I32{2, 3, 4});
  CHECK(errorOf({"narrow", {{"in", x}}, {{"dim", int64_t{0}}, {"start", int64_t{4}}, {"length", int64_t{3}}}, {}})
            .find("axis 0 has 6") != std::string::npos);
}

TEST_CASE("cat, stack and split_like lay parts side by side", "[shape]") {
  const TestTensor a = iota<float>({2, 2}), b = tensorOf<float>({2, 1}, {10, 11});
  CHECK(runAs<float>({"cat", {{"in", a}, {"in", b}}, {{"axis", int64_t{1}}}, {}}) ==
        std::vector<float>{0, 1, 10, 2, 3, 11});
  CHECK(runAs<float>({"concat", {{"in", a}, {"in", a}}, {{"axis", int64_t{0}}}, {}}) ==
        std::vector<float>{0, 1, 2, 3, 0, 1, 2, 3});
  CHECK(runAs<float>({"stack", {{"in", a}, {"in", a}}, {{"axis", int64_t{-1}}}, {}}) ==
        std::vector<float>{0, 0, 1, 1, 2, 2, 3, 3});
  const auto parts = run(
      {"split_like", {{"in", iota<float>({2, 3})}, {"like", a}, {"like", b}}, {{"axis", int64_t{1}}}, {{"out", 2}}});
  CHECK(parts[0].as<float>() == std::vector<float>{0, 1, 3, 4});
  CHECK(parts[1].as<float>() == std::vector<float>{2, 5});
  CHECK(errorOf({"cat", {{"in", a}, {"in", iota<float>({3, 3})}}, {{"axis", int64_t{1}}}, {}}).find("in_1 is (3,3)") !=
        std::string::npos);
  CHECK(errorOf({"cat", {{"in", a}, {"in", iota<double>({2, 2})}}, {}, {}}).find("in_1 is f64") != std::string::npos);
}

TEST_CASE("expand, broadcast_like, flip, roll, diagonals, triangles", "[shape]") {
  CHECK(
      runAs<float>({"expand", {{"in", tensorOf<float>({2, 1}, {1, 2})}}, {{"expand_shape", Shape({2, -1, 2})}}, {}}) ==
      std::vector<float>{1, 1, 2, 2, 1, 1, 2, 2});
  CHECK(runAs<float>({"broadcast_like",
                      {{"x", tensorOf<float>({2}, {1, 2})}, {"like", iota<float>({2, 3})}},
                      {{"broadcast_axes", I32{1}}},
                      {}}) == std::vector<float>{1, 1, 1, 2, 2, 2});
  CHECK(errorOf({"expand", {{"in", iota<float>({2, 3})}}, {{"expand_shape", Shape({4, 3})}}, {}})
            .find("cannot be repeated") != std::string::npos);
  CHECK(runAs<int32_t>({"flip", {{"x", iota<int32_t>({2, 3})}}, {{"dims", I32{0, 1}}}, {}}) == I32{5, 4, 3, 2, 1, 0});
  CHECK(runAs<int32_t>({"roll", {{"in", iota<int32_t>({2, 3})}}, {{"shifts", I32{1, -1}}, {"dims", I32{0, 1}}}, {}}) ==
        I32{4, 5, 3, 1, 2, 0});
  CHECK(runAs<int32_t>({"roll", {{"in", iota<int32_t>({2, 2})}}, {{"shifts", I32{-5}}}, {}}) == I32{1, 2, 3, 0});
  CHECK(runAs<int32_t>({"diag", {{"in", tensorOf<int32_t>({2}, {1, 2})}}, {{"diagonal", -1}}, {}}) ==
        I32{0, 0, 0, 1, 0, 0, 0, 2, 0});
  CHECK(runAs<int32_t>({"diag", {{"in", iota<int32_t>({3, 4})}}, {{"diagonal", 2}}, {}}) == I32{2, 7});
  CHECK(runAs<int32_t>({"diagonal", {{"in", iota<int32_t>({2, 2, 2})}}, {}, {}}) == I32{0, 6, 1, 7});
  CHECK(runAs<int32_t>({"tril", {{"in", iota<int32_t>({2, 3})}}, {{"integer_fill_value", int64_t{9}}}, {}}) ==
        I32{0, 9, 9, 3, 4, 9});
  CHECK(runAs<int32_t>({"triu", {{"in", iota<int32_t>({2, 3})}}, {{"diagonal", int64_t{1}}}, {}}) ==
        I32{0, 1, 2, 0, 0, 5});
}

TEST_CASE("pads in both spellings, negative and at the edges", "[shape]") {
  const TestTensor x = iota<float>({1, 3});
  CHECK(runAs<float>({"pad",
                      {{"x", x}},
                      {{"padding_before", I64{0, 1}}, {"padding_after", I64{1, 0}}, {"floating_constant_value", 9.0}},
                      {}}) == std::vector<float>{9, 0, 1, 2, 9, 9, 9, 9});
  CHECK(runAs<float>({"pad", {{"x", x}}, {{"padding", I64{-1, 2}}}, {}}) == std::vector<float>{1, 2, 0, 0});
  CHECK(runAs<float>({"reflection_pad1d", {{"x", x}}, {{"padding", I64{2, 1}}}, {}}) ==
        std::vector<float>{2, 1, 0, 1, 2, 1});
  CHECK(runAs<float>({"replication_pad2d", {{"x", iota<float>({1, 1, 2, 2})}}, {{"padding", I64{1, 0, 0, 1}}}, {}}) ==
        std::vector<float>{0, 0, 1, 2, 2, 3, 2, 2, 3});
  CHECK(errorOf({"reflection_pad1d", {{"x", x}}, {{"padding", I64{3, 0}}}, {}}).find("padding 3") != std::string::npos);
  CHECK(errorOf({"pad", {{"x", x}}, {{"padding", I64{-3, -1}}}, {}}).find("cuts more") != std::string::npos);
}

TEST_CASE("upsample_nearest_2d repeats the pixel at floor(position * input / output)", "[shape]") {
  // Without the rounding of a quotient: 49 * (1 / 49.0) is below 1.
  for (int64_t in : {1, 2, 3, 7, 49})
    for (int64_t factor : {1, 3, 10, 49, 98, 103}) {
      const TestTensor x = iota<float>({1, 1, 1, in});
      std::vector<float> want;
      for (int64_t o = 0; o < in * factor; ++o) want.push_back(static_cast<float>(o / factor));
      INFO(in << " times " << factor);
      CHECK(runAs<float>({"upsample_nearest_2d", {{"x", x}}, {{"output_size", I64{1, in * factor}}}, {}}) == want);
      CHECK(runAs<float>({"upsample_nearest_2d",
                          {{"x", x}},
                          {{"height_scale", 1.0}, {"width_scale", static_cast<double>(factor)}},
                          {}}) == want);
    }
  CHECK(runAs<float>({"upsample_nearest_2d", {{"x", iota<float>({1, 1, 5, 1})}}, {{"output_size", I64{3, 1}}}, {}}) ==
        std::vector<float>{0, 1, 3});
}

TEST_CASE("images of no sample may be of any size, and make no patches and pixels", "[shape]") {
  const int64_t side = int64_t{1} << 31;
  const std::vector<int32_t> one{1, 1};
  for (const char *op : {"upsample_nearest_2d", "upsample_bilinear_2d", "upsample_bicubic_2d"}) {
    const TestTensor none = tensorOf<float>({0, 1, 4, 4}, {}), made = tensorOf<float>({0, 1, 2 * side, 2 * side}, {});
    const I64 size{2 * side, 2 * side}; // 2^64 pixels
    CHECK(runAs<float>({op, {{"x", none}}, {{"output_size", size}}, {}}).empty());
    const std::string grad = std::string(op) + "_grad";
    CHECK(runAs<float>({grad, {{"dy", made}, {"x", none}}, {{"output_size", size}}, {}}).empty());
  }
  const TestTensor wide = tensorOf<float>({0, 1, side - 1, side - 1}, {});
  CHECK(runAs<float>({"unfold", {{"x", wide}}, {{"kernel_size", one}}, {}}).empty());
  CHECK(errorOf({"unfold",
                 {{"x", wide}},
                 {{"kernel_size", one}, {"padding", std::vector<int32_t>{INT32_MAX, INT32_MAX}}},
                 {}})
            .find("the number of columns") != std::string::npos);
  CHECK(errorOf({"unfold", {{"x", tensorOf<float>({0, 1, side, side}, {})}}, {{"kernel_size", one}}, {}})
            .find("has an axis over 2147483647") != std::string::npos);
}

TEST_CASE("random slices equal index arithmetic", "[shape]") {
  uint32_t seed = 12345;
  auto next = [&](int64_t lo, int64_t hi) { // in [lo, hi]
    seed = seed * 1664525u + 1013904223u;
    return lo + static_cast<int64_t>(seed >> 8) % (hi - lo + 1);
  };
  for (int round = 0; round < 300; ++round) {
    const int64_t rank = next(1, 4);
    DimVector dims;
    I64 start, stop, step;
    std::vector<I64> taken;
    for (int64_t a = 0; a < rank; ++a) {
      const int64_t n = next(0, 7);
      dims.push_back(n);
      start.push_back(next(-9, 9));
      stop.push_back(next(-9, 9));
      step.push_back(next(0, 1) ? next(1, 3) : next(-3, -1));
      // What Python's range(*slice(...).indices(n)) gives.
      const bool up = step.back() > 0;
      auto place = [&](int64_t p) {
        if (p < 0) p += n;
        return up ? std::min(std::max<int64_t>(p, 0), n) : std::min(std::max<int64_t>(p, -1), n - 1);
      };
      I64 indices;
      for (int64_t i = place(start.back()); up ? i < place(stop.back()) : i > place(stop.back()); i += step.back())
        indices.push_back(i);
      taken.push_back(indices);
    }
    const Shape shape(dims);
    const TestTensor x = iota<int16_t>(shape);
    const TestTensor y = run({"slice", {{"x", x}}, {{"start", start}, {"stop", stop}, {"step", step}}, {}})[0];
    const auto got = y.as<int16_t>();
    for (int64_t a = 0; a < rank; ++a)
      REQUIRE(y.shape().At(a) == static_cast<int64_t>(taken[static_cast<size_t>(a)].size()));
    for (int64_t i = 0; i < y.shape().elem_cnt(); ++i) {
      int64_t rest = i, at = 0;
      for (int64_t a = rank - 1; a >= 0; --a) {
        const auto &t = taken[static_cast<size_t>(a)];
        at += t[static_cast<size_t>(rest % static_cast<int64_t>(t.size()))] * shape.Count(a + 1);
        rest /= static_cast<int64_t>(t.size());
      }
      if (got[static_cast<size_t>(i)] != at) FAIL("round " << round << " element " << i << " of " << shape.ToString());
    }
  }
}
