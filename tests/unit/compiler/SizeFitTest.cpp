// Dimensions as functions of sizes: what samples of a formula give back is the formula.
// SPDX-License-Identifier: Apache-2.0
#include "SizeFit.h"

#include <catch2/catch.hpp>

#include <functional>

using namespace opc;

namespace {

using Sizes = std::vector<int64_t>;

/// Samples as the compiler takes them: the largest first, each size by itself, some together.
std::vector<Sizes> samplesOf(const Sizes &least, const Sizes &most) {
  std::vector<Sizes> samples = {most, least};
  for (size_t i = 0; i < most.size(); ++i)
    for (int64_t v = least[i]; v < most[i]; ++v) {
      samples.push_back(most);
      samples.back()[i] = v;
    }
  return samples;
}

/// Fits the function's values, and compares what was found at every size of the range.
void recovers(const Sizes &least, const Sizes &most, const std::function<int64_t(const Sizes &)> &f) {
  const std::vector<Sizes> samples = samplesOf(least, most);
  Sizes values;
  for (const Sizes &s : samples) values.push_back(f(s));
  const auto found = fitSizes(samples, values);
  REQUIRE(found);
  Sizes at = least;
  for (;;) {
    INFO(at[0]);
    CHECK(found->at(at) == f(at));
    size_t i = 0;
    while (i < at.size() && ++at[i] > most[i]) at[i] = least[i], ++i;
    if (i == at.size()) break;
  }
  for (const SizeExpression::Factor &factor : found->factors)
    for (int64_t c : factor.coefficient) CHECK(c >= 0);
}

bool fits(const Sizes &least, const Sizes &most, const std::function<int64_t(const Sizes &)> &f) {
  const std::vector<Sizes> samples = samplesOf(least, most);
  Sizes values;
  for (const Sizes &s : samples) values.push_back(f(s));
  return fitSizes(samples, values).has_value();
}

} // namespace

TEST_CASE("dimensions of one size are found again", "[sizefit]") {
  CHECK(fitSizes({{64}, {1}, {7}}, {784, 784, 784})->isFixed());
  recovers({1}, {64}, [](const Sizes &s) { return s[0]; });
  recovers({1}, {64}, [](const Sizes &s) { return 49 * s[0]; });
  recovers({1}, {64}, [](const Sizes &s) { return s[0] + 3; });
  recovers({8}, {64}, [](const Sizes &s) { return 2 * s[0] - 7; });
  recovers({1}, {64}, [](const Sizes &s) { return s[0] * s[0]; });
  recovers({1}, {64}, [](const Sizes &s) { return s[0] * (s[0] + 1); });
  // Convolutions: floor((n + 2 p - k) / s) + 1; a network of them.
  recovers({7}, {224}, [](const Sizes &s) { return (s[0] + 6 - 7) / 2 + 1; });
  recovers({32}, {224}, [](const Sizes &s) {
    int64_t n = s[0];
    for (int i = 0; i < 5; ++i) n = (n - 1) / 2 + 1;
    return n;
  });
  recovers({4}, {5}, [](const Sizes &s) { return 3 * s[0]; });
}

TEST_CASE("dimensions of several sizes are found again", "[sizefit]") {
  recovers({1, 1}, {9, 12}, [](const Sizes &s) { return s[0] * s[1]; });
  recovers({1, 1}, {9, 12}, [](const Sizes &s) { return s[0] + s[1]; });
  recovers({1, 1}, {9, 12}, [](const Sizes &s) { return s[0] * (s[1] + 1); });
  recovers({1, 2, 2}, {4, 9, 12}, [](const Sizes &s) { return 32 * s[0] * ((s[1] + 1) / 2) * (s[2] / 2); });
  recovers({1, 1}, {9, 12}, [](const Sizes &s) { return s[1]; });
}

TEST_CASE("what shrinks or has another form is not fitted", "[sizefit]") {
  CHECK_FALSE(fits({1}, {64}, [](const Sizes &s) { return 100 - s[0]; }));
  CHECK_FALSE(fits({1}, {64}, [](const Sizes &s) { return s[0] * s[0] * s[0]; }));
  CHECK_FALSE(fits({1}, {64}, [](const Sizes &s) { return s[0] < 40 ? s[0] : 40; }));
  CHECK_FALSE(fits({1, 1}, {9, 12}, [](const Sizes &s) { return std::max(s[0], s[1]); }));
}
