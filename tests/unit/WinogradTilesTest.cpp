// The steps of minimal filtering: a tile against its sums in double, and the levels against each other.
// SPDX-License-Identifier: Apache-2.0
#include "WinogradTiles.h"

#include "opc/ProcessorLevel.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using opc::cpu::kWinogradTilesV3;
using opc::cpu::kWinogradTilesV4;
using opc::cpu::WinogradTiles;
using Floats = std::vector<float>;

namespace {

constexpr int64_t kLanes = WinogradTiles::kLanes, kNumbers = WinogradTiles::kNumbers;

Floats noise(int64_t count, unsigned seed) {
  std::mt19937 draw(seed);
  std::normal_distribution<float> normal;
  Floats values(static_cast<size_t>(count));
  for (float &v : values) v = normal(draw);
  return values;
}

/// One sample of 13 x 11 pixels and 32 channels, 16 filters, a border of a pixel: every step, and its numbers.
struct Sample {
  static constexpr int64_t kRows = 13, kColumns = 11, kChannels = 32, kTiles = 12;
  static constexpr int64_t kStride = kTiles * kChannels + 16, kWeightStride = kChannels * kLanes + 16;
  Floats image = noise(kRows * kColumns * kChannels, 1), weight = noise(kChannels * 9 * kLanes, 2),
         bias = noise(kLanes, 3), y = noise(kRows * kColumns * kLanes, 4);
  Floats v = Floats(kNumbers * kStride), u = Floats(kNumbers * kWeightStride), m = Floats(kNumbers * kStride);

  void run(const WinogradTiles &tiles, bool adds, float low, float high) {
    for (int64_t t = 0; t < kTiles; ++t)
      tiles.input({image.data(), kRows, kColumns, kChannels}, t / 3 * 4 - 1, t % 3 * 4 - 1, v.data() + t * kChannels,
                  kStride);
    tiles.weight(weight.data(), kChannels, u.data(), kWeightStride);
    for (int64_t i = 0; i < kNumbers; ++i)
      for (const int64_t c : {0, 16}) // in two parts
        tiles.product(v.data() + i * kStride + c, kTiles, kChannels, u.data() + i * kWeightStride + c * kLanes, kLanes,
                      16, m.data() + i * kStride, c > 0);
    for (int64_t t = 0; t < kTiles; ++t) {
      const int64_t row = t / 3 * 4, column = t % 3 * 4;
      tiles.output(m.data() + t * kLanes, kStride,
                   {y.data() + (row * kColumns + column) * kLanes, std::min<int64_t>(4, kRows - row),
                    std::min<int64_t>(4, kColumns - column), kColumns * kLanes, kLanes},
                   {bias.data(), adds, low, high});
    }
  }
  double expected(int64_t row, int64_t column, int64_t filter) const {
    double sum = bias[static_cast<size_t>(filter)];
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 3; ++j) {
        const int64_t r = row + i - 1, q = column + j - 1;
        if (r < 0 || r >= kRows || q < 0 || q >= kColumns) continue;
        for (int64_t c = 0; c < kChannels; ++c)
          sum += double(image[static_cast<size_t>((r * kColumns + q) * kChannels + c)]) *
                 double(weight[static_cast<size_t>((c * 9 + i * 3 + j) * kLanes + filter)]);
      }
    return sum;
  }
};

std::vector<const WinogradTiles *> levels() {
  std::vector<const WinogradTiles *> all = {&kWinogradTilesV3};
  if (opc::hasLevelV4()) all.push_back(&kWinogradTilesV4);
  return all;
}

} // namespace

TEST_CASE("tiles of minimal filtering", "[winograd]") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const WinogradTiles *tiles : levels()) {
    Sample plain, added, clipped;
    const Floats before = added.y;
    plain.run(*tiles, false, -infinity, infinity);
    added.run(*tiles, true, -infinity, infinity);
    clipped.run(*tiles, false, -2.5f, 4.0f);
    for (int64_t row = 0; row < Sample::kRows; ++row)
      for (int64_t column = 0; column < Sample::kColumns; ++column)
        for (int64_t f = 0; f < kLanes; ++f) {
          const auto at = static_cast<size_t>((row * Sample::kColumns + column) * kLanes + f);
          const double y = plain.expected(row, column, f); // of 288 products: some 17
          CHECK(std::abs(plain.y[at] - y) < 2e-4);
          CHECK(std::abs(added.y[at] - (y + before[at])) < 2e-4);
          CHECK(std::abs(clipped.y[at] - std::min(std::max(y, -2.5), 4.0)) < 2e-4);
        }
  }
}

TEST_CASE("tiles of minimal filtering: a NaN stays", "[winograd]") {
  for (const WinogradTiles *tiles : levels()) {
    Sample s;
    s.bias[3] = std::nanf("");
    s.run(*tiles, false, 0, 1);
    for (size_t i = 0; i < s.y.size(); ++i) REQUIRE(std::isnan(s.y[i]) == (i % 16 == 3));
  }
}

TEST_CASE("tiles of minimal filtering have the same bits with AVX2 and AVX-512", "[winograd]") {
  if (!opc::hasLevelV4()) return;
  Sample narrow, wide;
  narrow.run(kWinogradTilesV3, true, -3, 5);
  wide.run(kWinogradTilesV4, true, -3, 5);
  CHECK(narrow.v == wide.v);
  CHECK(narrow.u == wide.u);
  CHECK(narrow.m == wide.m);
  CHECK(narrow.y == wide.y);
}
