// The interval of a median, against the published ranks of the sign test.
// SPDX-License-Identifier: Apache-2.0
#include "PairedTimes.h"

#include <catch2/catch.hpp>

#include <numeric>

using namespace opc::cli;

TEST_CASE("the interval of a median has the ranks that the binomial distribution gives", "[times]") {
  // n, and the rank of the lower end at 95 %: tables of nonparametric intervals for the median.
  const std::pair<int, int> table[] = {{6, 1},  {8, 1},  {9, 2},   {11, 2},  {12, 3},  {15, 4},
                                       {20, 6}, {25, 8}, {31, 10}, {50, 18}, {100, 40}};
  for (const auto &[n, rank] : table) {
    std::vector<double> values(static_cast<size_t>(n));
    std::iota(values.begin(), values.end(), 1); // a value is its rank
    std::swap(values.front(), values.back());
    const MedianInterval m = medianInterval(values);
    INFO("n = " << n);
    CHECK(m.median == (n + 1) / 2.0);
    CHECK(m.low == rank);
    CHECK(m.high == n + 1 - rank);
  }
}

TEST_CASE("few values give all of them as interval, and none gives nothing", "[times]") {
  CHECK(medianInterval({3, 1, 2}).low == 1);
  CHECK(medianInterval({3, 1, 2}).high == 3);
  CHECK(medianInterval({}).median == 0);
  CHECK(medianInterval({5}).high == 5);
}

TEST_CASE("ratios are of pairs", "[times]") {
  // Twice as long in every round, whatever the machine does between the rounds.
  const MedianInterval r = ratioInterval({2, 20, 6, 8, 200, 12, 4}, {1, 10, 3, 4, 100, 6, 2});
  CHECK(r.median == 2);
  CHECK(r.low == 2);
  CHECK(r.high == 2);
}
