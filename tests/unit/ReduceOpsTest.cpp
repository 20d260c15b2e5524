// Reductions, arg extremes, moments, scans, sorts and losses against plain loops in f64.
// SPDX-License-Identifier: Apache-2.0
#include "OpCall.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

using namespace opc;
using namespace opc::test;
using I32 = std::vector<int32_t>;
using I64 = std::vector<int64_t>;

namespace {
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

/// Folds `in` over `axes` in row-major order.
std::vector<double> folded(const std::vector<float> &in, const Shape &shape, const I32 &axes, double init,
                           const std::function<double(double, double)> &f) {
  int64_t outputs = 1;
  for (int64_t a = 0; a < shape.NumAxes(); ++a)
    if (std::find(axes.begin(), axes.end(), a) == axes.end()) outputs *= shape.At(a);
  std::vector<double> out(static_cast<size_t>(outputs), init);
  for (size_t i = 0; i < in.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i), o = 0, scale = 1;
    for (int64_t a = shape.NumAxes() - 1; a >= 0; --a) {
      if (std::find(axes.begin(), axes.end(), a) == axes.end()) o += rest % shape.At(a) * scale, scale *= shape.At(a);
      rest /= shape.At(a);
    }
    out[static_cast<size_t>(o)] = f(out[static_cast<size_t>(o)], static_cast<double>(in[i]));
  }
  return out;
}
void requireNear(const std::vector<float> &found, const std::vector<double> &want, double tolerance) {
  REQUIRE(found.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::abs(static_cast<double>(found[i]) - want[i]) <= tolerance * (1 + std::abs(want[i]))))
      FAIL(i << ": " << found[i] << " vs " << want[i]);
}
OpCall reduce(const std::string &op, TestTensor x, I32 axes, bool keep = false) {
  return {op, {{"input_tensor", std::move(x)}}, {{"axis", axes}, {"keepdims", keep}}, {}};
}
} // namespace

TEST_CASE("reductions equal plain loops for every pattern of axes", "[reduce]") {
  const std::vector<std::pair<Shape, I32>> patterns = {{{7}, {0}},
                                                       {{5, 37}, {1}},
                                                       {{37, 5}, {0}},
                                                       {{3, 4, 5}, {0, 2}},
                                                       {{3, 4, 5}, {1}},
                                                       {{2, 3, 4, 5}, {1, 3}},
                                                       {{2, 3, 4, 5}, {0, 2}},
                                                       {{3, 1, 5}, {1}},
                                                       {{3, 5}, {}},
                                                       {{}, {}},
                                                       {{300000}, {0}},
                                                       {{4, 100000}, {1}},
                                                       {{100000, 3}, {0}},
                                                       {{5000, 70}, {0}},
                                                       {{300, 1500}, {0}},
                                                       {{300, 1500}, {0, 1}},
                                                       {{64, 3, 4000}, {0, 2}},
                                                       {{2, 3000, 40}, {1}}};
  for (const auto &[shape, axes] : patterns) {
    INFO(shape.ToString());
    const auto data = noise(shape.elem_cnt());
    const TestTensor x = tensorOf<float>(shape, data);
    auto sum = folded(data, shape, axes, 0, [](double a, double b) { return a + b; });
    requireNear(runAs<float>(reduce("reduce_sum", x, axes)), sum, 1e-5);
    const double count = sum.empty() ? 1 : static_cast<double>(shape.elem_cnt()) / static_cast<double>(sum.size());
    for (double &s : sum) s /= count;
    requireNear(runAs<float>(reduce("reduce_mean", x, axes)), sum, 1e-6);
    requireNear(runAs<float>(reduce("reduce_max", x, axes)),
                folded(data, shape, axes, -1e30, [](double a, double b) { return std::max(a, b); }), 0);
    requireNear(runAs<float>(reduce("reduce_min", x, axes)),
                folded(data, shape, axes, 1e30, [](double a, double b) { return std::min(a, b); }), 0);
    auto lse = folded(data, shape, axes, 0, [](double a, double b) { return a + std::exp(b); });
    for (double &v : lse) v = std::log(v);
    requireNear(runAs<float>(reduce("logsumexp", x, axes)), lse, 1e-5);
  }
}

TEST_CASE("long sums keep f32 accuracy and f16 sums do not overflow on the way", "[reduce]") {
  const int64_t n = 3000000;
  const TestTensor x = tensorOf<float>({n}, std::vector<float>(static_cast<size_t>(n), 0.1f));
  CHECK(runAs<float>(reduce("reduce_sum", x, {0}))[0] == Approx(static_cast<double>(0.1f) * n).epsilon(1e-6));
  std::vector<float16> halves;
  for (int i = 0; i < 4000; ++i) halves.push_back(float16(i % 2 ? -60000.f : 60000.f));
  CHECK(static_cast<float>(runAs<float16>(reduce("reduce_sum", tensorOf<float16>({2000, 2}, halves), {0, 1}))[0]) ==
        0.f);
  CHECK(runAs<float>(reduce("reduce_prod", tensorOf<float>({4}, {1e30f, 1e30f, 1e-30f, 1e-30f}), {0}))[0] ==
        Approx(1.0));
}

TEST_CASE("extremes propagate NaN, empty reductions have identities, integers wrap", "[reduce]") {
  CHECK(std::isnan(runAs<float>(reduce("reduce_max", tensorOf<float>({3}, {1, kNan, 2}), {0}))[0]));
  std::vector<float> many(100, 1.f);
  for (size_t at : {0u, 31u, 50u, 99u}) {
    auto v = many;
    v[at] = kNan;
    CHECK(std::isnan(runAs<float>(reduce("reduce_min", tensorOf<float>({100}, v), {0}))[0]));
    CHECK(std::isnan(runAs<float>(reduce("reduce_max", tensorOf<float>({100, 1}, v), {0}))[0]));
    CHECK(runAs<int64_t>({"argmax", {{"in", tensorOf<float>({100}, v)}}, {}, {}})[0] == static_cast<int64_t>(at));
  }
  CHECK(runAs<int64_t>({"argmax", {{"in", tensorOf<float>({4}, {1, kNan, 9, kNan})}}, {}, {}}) == I64{1});
  CHECK(runAs<int64_t>({"argmax", {{"in", tensorOf<float>({2, 3}, {1, 5, 5, -1, -1, -2})}}, {}, {}}) == I64{1, 0});
  CHECK(runAs<int64_t>({"argmin", {{"in", tensorOf<int32_t>({2, 3}, {1, 0, 0, 3, 2, 4})}}, {}, {}}) == I64{1, 1});
  CHECK(runAs<int64_t>({"argmax", {{"in", tensorOf<float>({2}, {-kInf, -kInf})}}, {}, {}}) == I64{0});
  CHECK(errorOf({"argmax", {{"in", iota<float>({2, 0})}}, {}, {}}).find("empty") != std::string::npos);
  const TestTensor none = iota<float>({2, 0});
  CHECK(runAs<float>(reduce("reduce_sum", none, {1})) == std::vector<float>{0, 0});
  CHECK(runAs<float>(reduce("reduce_max", none, {1})) == std::vector<float>{-kInf, -kInf});
  CHECK(std::isnan(runAs<float>(reduce("reduce_mean", none, {1}))[0]));
  CHECK(run(reduce("reduce_sum", iota<float>({0, 3}), {1}))[0].shape() == Shape({0}));
  CHECK(runAs<int32_t>(reduce("reduce_sum", tensorOf<int32_t>({2}, {INT32_MAX, 1}), {0})) == I32{INT32_MIN});
  CHECK(runAs<int32_t>(reduce("reduce_max", tensorOf<int32_t>({3}, {INT32_MIN, -5, INT32_MIN}), {0})) == I32{-5});
  CHECK(runAs<bool>(reduce("reduce_any", tensorOf<float>({2, 2}, {0, kNan, 0, 0}), {1})) ==
        std::vector<bool>{true, false});
  CHECK(runAs<bool>(reduce("reduce_all", tensorOf<bool>({2, 2}, {true, true, true, false}), {1})) ==
        std::vector<bool>{true, false});
  CHECK(run(reduce("reduce_sum", iota<float>({2, 3}), {-1}, true))[0].shape() == Shape({2, 1}));
  CHECK(errorOf(reduce("reduce_sum", iota<float>({2, 3}), {2})).find("rank 2") != std::string::npos);
  CHECK(errorOf(reduce("reduce_sum", iota<float>({2, 3}), {1, -1})).find("twice") != std::string::npos);
}

TEST_CASE("var, reduce_sum_like, logsumexp at infinity", "[reduce]") {
  auto var = [](TestTensor x, I32 dim, bool unbiased) {
    return runAs<float>({"var", {{"input", std::move(x)}}, {{"dim", dim}, {"unbiased", unbiased}}, {}});
  };
  CHECK(var(tensorOf<float>({4}, {1e6f, 1e6f + 1, 1e6f + 2, 1e6f + 3}), {0}, true)[0] == Approx(5.0 / 3));
  CHECK(var(tensorOf<float>({2, 2}, {0, 2, 4, 8}), {0}, false) == std::vector<float>{4, 9});
  CHECK(std::isnan(var(tensorOf<float>({1}, {3}), {0}, true)[0]));
  CHECK(var(tensorOf<float>({2, 2}, {0, 2, 4, 8}), {}, false)[0] == Approx(8.75));
  CHECK(runAs<float>(
            {"reduce_sum_like", {{"x", iota<float>({2, 3})}, {"like", iota<float>({1, 3})}}, {{"axis", I32{0}}}, {}}) ==
        std::vector<float>{3, 5, 7});
  CHECK(
      runAs<float>({"reduce_sum_like", {{"x", iota<float>({3})}, {"like", iota<float>({3})}}, {{"axis", I32{}}}, {}}) ==
      std::vector<float>{0, 1, 2});
  CHECK(runAs<float>(reduce("logsumexp", tensorOf<float>({2, 2}, {-kInf, -kInf, 1000, 1000}), {1}))[0] == -kInf);
  CHECK(runAs<float>(reduce("logsumexp", tensorOf<float>({2}, {1000, 1000}), {0}))[0] == Approx(1000 + std::log(2.0)));
  CHECK(runAs<float>(reduce("logsumexp", tensorOf<float>({2}, {kInf, 0}), {0}))[0] == kInf);
}

TEST_CASE("scans and sorts", "[reduce]") {
  CHECK(runAs<float>({"cumsum", {{"x", iota<float>({2, 3})}}, {{"dim", int64_t{1}}}, {}}) ==
        std::vector<float>{0, 1, 3, 3, 7, 12});
  CHECK(runAs<int32_t>({"cumprod", {{"x", tensorOf<int32_t>({3, 1}, {2, 3, 4})}}, {{"dim", int64_t{0}}}, {}}) ==
        I32{2, 6, 24});
  const TestTensor x = tensorOf<float>({5}, {2, kNan, -1, 2, 7});
  auto sorted = runAs<float>({"sort", {{"in", x}}, {{"direction", "ASCENDING"}}, {}});
  CHECK(std::isnan(sorted[4]));
  sorted.pop_back();
  CHECK(sorted == std::vector<float>{-1, 2, 2, 7});
  CHECK(runAs<int32_t>({"arg_sort", {{"in", x}}, {{"direction", "ASCENDING"}}, {}}) == I32{2, 0, 3, 4, 1});
  CHECK(runAs<int32_t>({"arg_sort", {{"in", x}}, {{"direction", "DESCENDING"}}, {}}) == I32{1, 4, 0, 3, 2});
  CHECK(runAs<int64_t>({"top_k", {{"in", x}}, {{"k", 3}}, {}}) == I64{1, 4, 0});
  CHECK(runAs<int64_t>({"top_k", {{"in", iota<int32_t>({2, 2})}}, {{"k", 5}}, {}}) == I64{1, 0, 1, 0});
  CHECK(errorOf({"sort", {{"in", x}}, {{"direction", "up"}}, {}}).find("ASCENDING") != std::string::npos);
}

TEST_CASE("losses", "[reduce]") {
  const TestTensor logits = tensorOf<float>({2, 3}, {1, 2, 3, 1000, 0, -1000});
  const auto out = run({"sparse_softmax_cross_entropy",
                        {{"prediction", logits}, {"label", tensorOf<int64_t>({2}, {2, 0})}},
                        {{"depth", int64_t{3}}},
                        {}});
  requireNear(out[1].as<float>(), {0.40760596444438, 0}, 1e-6);
  CHECK(out[0].as<float>()[3] == 1.f);
  CHECK(
      errorOf(
          {"sparse_softmax_cross_entropy", {{"prediction", logits}, {"label", tensorOf<int32_t>({2}, {1, 3})}}, {}, {}})
          .find("label[1] = 3 is outside [0, 3)") != std::string::npos);
  const auto nll = run({"nll",
                        {{"input", tensorOf<float>({3, 2}, {-1, -2, -3, -4, -5, -6})},
                         {"target", tensorOf<int64_t>({3}, {1, 9, 0})},
                         {"weight", tensorOf<float>({2}, {2, 10})}},
                        {{"ignore_index", int64_t{9}}},
                        {}});
  CHECK(nll[0].as<float>() == std::vector<float>{20, 0, 10});
  CHECK(nll[1].as<float>() == std::vector<float>{10, 0, 2});
  CHECK(errorOf({"nll", {{"input", iota<float>({1, 2})}, {"target", tensorOf<int64_t>({1}, {2})}}, {}, {}})
            .find("target[0] = 2") != std::string::npos);
  requireNear(
      runAs<float>({"binary_cross_entropy",
                    {{"input", tensorOf<float>({3}, {0.5f, 0, 1})}, {"target", tensorOf<float>({3}, {1, 1, 1})}},
                    {},
                    {}}),
      {std::log(2.0), 100, 0}, 1e-6);
  requireNear(
      runAs<float>({"binary_cross_entropy_with_logits",
                    {{"input", tensorOf<float>({3}, {0, -200, 200})}, {"target", tensorOf<float>({3}, {1, 1, 1})}},
                    {},
                    {}}),
      {std::log(2.0), 200, 0}, 1e-6);
  requireNear(runAs<float>({"smooth_l1_loss",
                            {{"prediction", tensorOf<float>({2}, {0.5f, 3})}, {"label", tensorOf<float>({2}, {0, 0})}},
                            {{"beta", 1.f}},
                            {}}),
              {0.125, 2.5}, 1e-6);
  requireNear(runAs<float>({"kl_div_loss",
                            {{"input", tensorOf<float>({2}, {-1, -1})}, {"target", tensorOf<float>({2}, {0, 0.5f})}},
                            {},
                            {}}),
              {0, 0.5 * (std::log(0.5) + 1)}, 1e-6);
  // torch.nn.functional.kl_div: what is no probability has no logarithm.
  const auto divergence =
      runAs<float>({"kl_div_loss",
                    {{"input", tensorOf<float>({2}, {-1, -1})}, {"target", tensorOf<float>({2}, {-0.5f, -kInf})}},
                    {},
                    {}});
  CHECK((std::isnan(divergence[0]) && std::isnan(divergence[1])));
}

TEST_CASE("square sums and counts over whole tensors", "[reduce]") {
  CHECK(runAs<float>({"square_sum", {{"x", tensorOf<float>({2, 2}, {1, 2, 3, 4})}}, {}, {}}) == std::vector<float>{30});
  CHECK(runAs<double>({"multi_square_sum",
                       {{"x", iota<double>({3})}, {"x", iota<double>({0})}, {"x", tensorOf<double>({}, {2})}},
                       {},
                       {}}) == std::vector<double>{9});
  const auto data = noise(500000);
  double want = 0;
  for (float v : data) want += static_cast<double>(v) * v;
  CHECK(runAs<float>({"multi_square_sum",
                      {{"x", tensorOf<float>({500000}, data)}, {"x", tensorOf<float>({1000, 500}, data)}},
                      {},
                      {}})[0] == Approx(2 * want).epsilon(1e-6));
  CHECK(runAs<int64_t>({"count_not_finite", {{"x", tensorOf<float>({4}, {kNan, 1, -kInf, 3e38f})}}, {}, {}}) == I64{2});
  CHECK(runAs<int64_t>(
            {"count_not_finite", {{"x", tensorOf<float16>({2}, {float16(65504.f), float16(1e6f)})}}, {}, {}}) ==
        I64{1});
  CHECK(runAs<float>(reduce("reduce_nansum", tensorOf<float>({3}, {1, kNan, 2}), {0})) == std::vector<float>{3});
}
