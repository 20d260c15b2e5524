// Dimensions as functions of sizes, found from their values at samples.
// SPDX-License-Identifier: Apache-2.0
#include "SizeFit.h"

#include <algorithm>
#include <numeric>

namespace opc {
namespace {

using Sizes = std::vector<int64_t>;
using Samples = std::vector<Sizes>;
using Factor = SizeExpression::Factor;

// Strides of convolutions and pools multiply along a network: 32 in most, 64 and more in some.
constexpr int64_t kMostDivisor = 256;

int64_t floorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

int64_t factorAt(const Factor &f, const Sizes &sizes) {
  int64_t sum = f.constant;
  for (size_t i = 0; i < sizes.size(); ++i) sum += f.coefficient[i] * sizes[i];
  return floorDiv(sum, f.divisor);
}

/// The coefficients and the divisor are known: is there a constant that gives all values?
std::optional<Factor> withConstant(Factor f, const Samples &samples, const Sizes &values) {
  int64_t least = INT64_MIN, most = INT64_MAX;
  for (size_t k = 0; k < samples.size(); ++k) {
    int64_t sum = 0;
    for (size_t i = 0; i < samples[k].size(); ++i) sum += f.coefficient[i] * samples[k][i];
    least = std::max(least, values[k] * f.divisor - sum);
    most = std::min(most, values[k] * f.divisor - sum + f.divisor - 1);
  }
  if (least > most) return std::nullopt;
  f.constant = least <= 0 && most >= 0 ? 0 : least > 0 ? least : most;
  return f;
}

/// What the value grows by along size i, times the divisor: all whole numbers that fit the two ends of the samples that
/// differ in that size alone.
struct Slopes {
  int64_t least = 0, most = 0;
};
std::vector<Slopes> slopesOf(const Samples &samples, const Sizes &values, int64_t divisor) {
  std::vector<Slopes> slopes(samples[0].size());
  for (size_t i = 0; i < slopes.size(); ++i) {
    size_t low = 0, high = 0;
    for (size_t k = 1; k < samples.size(); ++k) {
      bool isAlong = true;
      for (size_t j = 0; j < samples[k].size(); ++j) isAlong &= j == i || samples[k][j] == samples[0][j];
      if (!isAlong) continue;
      if (samples[k][i] < samples[low][i]) low = k;
      if (samples[k][i] > samples[high][i]) high = k;
    }
    const int64_t length = samples[high][i] - samples[low][i];
    if (length == 0) continue;
    const int64_t rise = (values[high] - values[low]) * divisor, slack = divisor - 1;
    slopes[i] = {-floorDiv(slack - rise, length), floorDiv(rise + slack, length)};
  }
  return slopes;
}

/// One factor over all sizes.
std::optional<Factor> fitFactor(const Samples &samples, const Sizes &values) {
  for (int64_t divisor = 1; divisor <= kMostDivisor; ++divisor) {
    const std::vector<Slopes> slopes = slopesOf(samples, values, divisor);
    Factor f;
    f.divisor = divisor;
    bool isPossible = true;
    // Where several slopes fit, the smallest is tried, then the largest: between them samples leave no doubt.
    for (const Slopes &s : slopes) isPossible &= s.least <= s.most && s.most >= 0;
    if (!isPossible) continue;
    for (const bool isLeast : {true, false}) {
      f.coefficient.clear();
      for (const Slopes &s : slopes) f.coefficient.push_back(std::max<int64_t>(0, isLeast ? s.least : s.most));
      if (std::optional<Factor> found = withConstant(f, samples, values)) return found;
    }
  }
  return std::nullopt;
}

Factor sizeAlone(size_t size, size_t count) {
  Factor f;
  f.coefficient.assign(count, 0);
  f.coefficient[size] = 1;
  return f;
}

/// n * (m + 1), n * n.
std::optional<SizeExpression> fitSizeTimesFactor(const Samples &samples, const Sizes &values) {
  for (size_t i = 0; i < samples[0].size(); ++i) {
    Sizes rest;
    for (size_t k = 0; k < values.size() && values[k] % samples[k][i] == 0; ++k)
      rest.push_back(values[k] / samples[k][i]);
    if (rest.size() != values.size()) continue;
    if (const auto f = fitFactor(samples, rest)) return SizeExpression{{sizeAlone(i, samples[0].size()), *f}};
  }
  return std::nullopt;
}

/// A number times a factor for each size: ((h + 1) / 2) * ((w + 1) / 2) * 32. A factor is found along the samples in
/// which its size alone differs from the first.
std::optional<SizeExpression> fitFactorForEach(const Samples &samples, const Sizes &values) {
  SizeExpression e;
  int64_t product = 1;
  for (size_t i = 0; i < samples[0].size(); ++i) {
    Samples along;
    Sizes there;
    for (size_t k = 0; k < samples.size(); ++k) {
      bool isAlong = true;
      for (size_t j = 0; j < samples[k].size(); ++j) isAlong &= j == i || samples[k][j] == samples[0][j];
      if (!isAlong) continue;
      along.push_back(samples[k]);
      there.push_back(values[k]);
    }
    int64_t common = 0;
    for (int64_t v : there) common = std::gcd(common, v);
    if (common == 0) return std::nullopt;
    for (int64_t &v : there) v /= common;
    if (std::all_of(there.begin(), there.end(), [](int64_t v) { return v == 1; })) continue;
    const std::optional<Factor> f = fitFactor(along, there);
    if (!f) return std::nullopt;
    product *= there[0];
    e.factors.push_back(*f);
  }
  if (product == 0 || values[0] % product != 0) return std::nullopt;
  Factor number;
  number.constant = values[0] / product;
  number.coefficient.assign(samples[0].size(), 0);
  if (number.constant != 1) e.factors.push_back(number);
  for (size_t k = 0; k < samples.size(); ++k)
    if (e.at(samples[k]) != values[k]) return std::nullopt;
  return e;
}

} // namespace

int64_t SizeExpression::at(const Sizes &sizes) const {
  int64_t product = 1;
  for (const Factor &f : factors) product *= factorAt(f, sizes);
  return product;
}

std::optional<SizeExpression> fitSizes(const Samples &samples, const Sizes &values) {
  if (std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; })) return SizeExpression{};
  // Products of divisors and slopes must not overflow; no machine has tensors of this size.
  if (std::any_of(values.begin(), values.end(), [](int64_t v) { return v < 0 || v > (int64_t{1} << 48); }))
    return std::nullopt;
  if (const auto f = fitFactor(samples, values)) return SizeExpression{{*f}};
  if (auto e = fitSizeTimesFactor(samples, values)) return e;
  return fitFactorForEach(samples, values);
}

} // namespace opc
