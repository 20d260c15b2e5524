// The functions on rows: against the formulas in f64, and the same bits at both levels.
// SPDX-License-Identifier: Apache-2.0
#include "RowMath.h"
#include "opc/ProcessorLevel.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

using opc::cpu::kRowMathV3;
using opc::cpu::kRowMathV4;
using opc::cpu::RowMath;
using Row = std::vector<float>;

namespace {
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();
constexpr int64_t kSizes[] = {1,  2,  7,  8,  9,  15, 16,  17,  23,  24,   31,   32,
                              33, 40, 47, 63, 64, 65, 100, 127, 300, 1025, 20000};

Row values(int64_t n, unsigned seed, float from = -9, float to = 9) {
  std::mt19937 random(seed);
  Row row(static_cast<size_t>(n));
  for (float &x : row) x = from + (to - from) * static_cast<float>(random() % 65536) / 65536;
  return row;
}
double sumOf(int64_t n, const std::function<double(size_t)> &f) {
  double sum = 0;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) sum += f(i);
  return sum;
}
double at(const Row &row, size_t i) { return static_cast<double>(row[i]); }

/// Every function, one result after the other.
Row everything(const RowMath &math, const Row &x, const Row &y, const Row &gamma, int64_t n, int64_t rows) {
  Row all, made(x.size()), logs(static_cast<size_t>(rows));
  const auto keep = [&](const Row &row) { all.insert(all.end(), row.begin(), row.end()); };
  math.softmax(x.data(), made.data(), n, rows), keep(made);
  math.logSoftmax(x.data(), made.data(), n, rows), keep(made);
  math.softmaxGradient(x.data(), y.data(), made.data(), n, rows), keep(made);
  math.logSoftmaxGradient(x.data(), y.data(), made.data(), n, rows), keep(made);
  math.softmaxAndLog(x.data(), made.data(), logs.data(), n, rows), keep(made), keep(logs);
  math.scale(x.data(), y.data(), made.data(), n, rows), keep(made);
  math.exponentials(x.data(), made.data(), n, 2.5f), keep(made);
  all.push_back(math.total(x.data(), n));
  all.push_back(math.crossEntropy(x.data(), y.data(), 1.5f, n));
  math.crossEntropyGradient(x.data(), y.data(), made.data(), n, 0.75f, 1.25f), keep(made);
  for (bool centered : {true, false}) {
    float mean = 0, inverse = 0;
    math.statistics(x.data(), n, centered, 1e-5f, &mean, &inverse), all.insert(all.end(), {mean, inverse});
    for (const float *scale : {gamma.data(), static_cast<const float *>(nullptr)})
      for (const float *other : {y.data(), static_cast<const float *>(nullptr)}) {
        math.normalize(x.data(), made.data(), n, mean, inverse, scale, other), keep(made);
        math.normGradient(y.data(), x.data(), made.data(), n, scale, other, mean, inverse, centered), keep(made);
      }
  }
  Row gammas(static_cast<size_t>(n), 0.5f), betas(gammas.size(), 0.25f);
  for (const float *means : {static_cast<const float *>(logs.data()), static_cast<const float *>(nullptr)}) {
    math.parameterRows(y.data(), x.data(), means, logs.data(), rows, n, n, gammas.data(), betas.data());
    keep(gammas), keep(betas);
  }
  return all;
}

void requireSame(const Row &a, const Row &b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i)
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]) && !(std::isnan(a[i]) && std::isnan(b[i])))
      FAIL(i << ": " << a[i] << " vs " << b[i]);
}
} // namespace

TEST_CASE("functions on rows have the same bits with AVX-512 and without", "[rows]") {
  if (!opc::hasLevelV4()) return;
  for (int64_t n : kSizes)
    for (int64_t rows : {1, 3}) {
      Row x = values(n * rows, static_cast<unsigned>(n)), y = values(n * rows, 7, 0, 1);
      const Row gamma = values(n, 9, 0.5f, 2);
      INFO(n << " elements, " << rows << " rows");
      requireSame(everything(kRowMathV3, x, y, gamma, n, rows), everything(kRowMathV4, x, y, gamma, n, rows));
      const float special[] = {kNan, kInf, -kInf, 0.0f, -0.0f, 1e-41f, 3e38f, -3e38f, -200.0f};
      for (size_t i = 0; i < std::size(special); ++i) {
        x[(i * 5) % x.size()] = special[i];
        y[(i * 3) % y.size()] = i % 2 ? 0.0f : special[(i + 1) % std::size(special)];
        requireSame(everything(kRowMathV3, x, y, gamma, n, rows), everything(kRowMathV4, x, y, gamma, n, rows));
      }
    }
}

TEST_CASE("functions on rows are what their formulas say", "[rows]") {
  for (const RowMath *math : {&kRowMathV3, &kRowMathV4})
    for (int64_t n : kSizes) {
      if (math == &kRowMathV4 && !opc::hasLevelV4()) continue;
      INFO(n << " elements");
      const Row x = values(n, 3), dy = values(n, 5, -1, 1), gamma = values(n, 6, 0.5f, 2);
      const auto size = static_cast<size_t>(n);
      Row made(size);
      const auto near = [&](const char *what, double tolerance, const std::function<double(size_t)> &want) {
        for (size_t i = 0; i < size; ++i)
          if (!(std::abs(at(made, i) - want(i)) <= tolerance * (1e-3 + std::abs(want(i)))))
            FAIL(what << " " << i << ": " << made[i] << " vs " << want(i));
      };
      const double top = at(x, static_cast<size_t>(std::max_element(x.begin(), x.end()) - x.begin()));
      const double log = top + std::log(sumOf(n, [&](size_t i) { return std::exp(at(x, i) - top); }));
      const auto soft = [&](size_t i) { return std::exp(at(x, i) - log); };
      math->softmax(x.data(), made.data(), n, 1);
      near("softmax", 2e-6, soft);
      const Row prob = made;
      float found = 0;
      math->softmaxAndLog(x.data(), made.data(), &found, n, 1);
      near("softmaxAndLog", 2e-6, soft);
      REQUIRE(std::abs(static_cast<double>(found) - log) <= 2e-6 * (1 + std::abs(log)));
      math->exponentials(x.data(), made.data(), n, -2.0f);
      near("exponentials", 1e-6, [&](size_t i) { return std::exp(at(x, i) + 2); });
      made = x;
      math->softmaxAndLog(made.data(), made.data(), &found, n, 1);
      near("softmaxAndLog in its place", 2e-6, soft);
      math->logSoftmax(x.data(), made.data(), n, 1);
      near("logSoftmax", 4e-6, [&](size_t i) { return at(x, i) - log; });
      const double dot = sumOf(n, [&](size_t i) { return at(prob, i) * at(dy, i); });
      math->softmaxGradient(prob.data(), dy.data(), made.data(), n, 1);
      near("softmaxGradient", 1e-4, [&](size_t i) { return at(prob, i) * (at(dy, i) - dot); });
      float mean = 0, inverse = 0;
      math->statistics(x.data(), n, true, 1e-3f, &mean, &inverse);
      const double center = sumOf(n, [&](size_t i) { return at(x, i); }) / static_cast<double>(n);
      const double variance =
          sumOf(n, [&](size_t i) { return (at(x, i) - center) * (at(x, i) - center); }) / static_cast<double>(n);
      REQUIRE(std::abs(static_cast<double>(mean) - center) <= 1e-5);
      REQUIRE(std::abs(static_cast<double>(inverse) * std::sqrt(variance + 1e-3) - 1) <= 1e-5);
      const double scale = static_cast<double>(inverse), shift = static_cast<double>(mean);
      const auto hat = [&](size_t i) { return (at(x, i) - shift) * scale; };
      math->normalize(x.data(), made.data(), n, mean, inverse, gamma.data(), dy.data());
      near("normalize", 1e-4, [&](size_t i) { return hat(i) * at(gamma, i) + at(dy, i); });
      const auto d = [&](size_t i) { return at(dy, i) * at(gamma, i); };
      const double m = sumOf(n, d) / static_cast<double>(n);
      const double along = sumOf(n, [&](size_t i) { return d(i) * hat(i); }) / static_cast<double>(n);
      math->normGradient(dy.data(), x.data(), made.data(), n, gamma.data(), dy.data(), mean, inverse, true);
      const double tolerance = n == 1 ? 1e-2 : 1e-3;
      near("normGradient", tolerance, [&](size_t i) { return scale * (d(i) - m - hat(i) * along) + at(dy, i); });
      constexpr int64_t kSumRows = 37;
      const Row wide = values(n * kSumRows, 11), slopes = values(n * kSumRows, 12, -1, 1), inverses(kSumRows, 0.5f);
      const Row means = values(kSumRows, 13);
      Row gammas(size, 2), betas(size, 3);
      math->parameterRows(slopes.data(), wide.data(), means.data(), inverses.data(), kSumRows, n, n, gammas.data(),
                          betas.data());
      for (size_t j = 0; j < size; ++j) {
        const auto place = [&](size_t r) { return r * size + j; };
        const double beta = 3 + sumOf(kSumRows, [&](size_t r) { return at(slopes, place(r)); });
        const double slope = 2 + sumOf(kSumRows, [&](size_t r) {
                               return at(slopes, place(r)) * (at(wide, place(r)) - at(means, r)) * 0.5;
                             });
        if (!(std::abs(at(betas, j) - beta) <= 1e-4) || !(std::abs(at(gammas, j) - slope) <= 1e-3))
          FAIL("parameterRows " << j << ": " << gammas[j] << ", " << betas[j] << " vs " << slope << ", " << beta);
      }
      double entropy = 0;
      for (size_t i = 0; i < size; ++i) entropy += at(gamma, i) * (1.5 - at(x, i));
      REQUIRE(std::abs(static_cast<double>(math->crossEntropy(x.data(), gamma.data(), 1.5f, n)) - entropy) <=
              1e-5 * (static_cast<double>(n) + std::abs(entropy)));
    }
}
