// Metrics against values worked out by numpy: see the comment at each.
// SPDX-License-Identifier: Apache-2.0
#include "TensorMetrics.h"
#include "SessionCalls.h"
#include "TensorCompare.h"
#include "TensorSpec.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

using namespace opc;
using namespace opc::cli;
using opc::test::floats;

namespace {

using Kind = Metric::Kind;

HostTensor longs(const std::string &values) { return std::move(*makeTensor(*parseTensorSpec("i64[1]:" + values), {})); }

} // namespace

TEST_CASE("metrics of small tensors", "[metrics]") {
  const HostTensor a = floats({1, 2, 3, 4}), e = floats({1, 2, 4, 8});
  // numpy: a @ e / (norm(a) * norm(e)) = 49 / (sqrt(30) * sqrt(85)) = 0.97034459...
  CHECK(metricValue(Kind::kCosine, a, e, false) == Approx(49 / (std::sqrt(30.0) * std::sqrt(85.0))).epsilon(1e-12));
  CHECK(metricValue(Kind::kMax, a, e, false) == 4);
  CHECK(metricValue(Kind::kMean, a, e, false) == 1.25);
  CHECK(metricValue(Kind::kP99, a, e, false) == 4);
  // 10 log10(7^2 / mean(0, 0, 1, 16)) = 10 log10(49 / 4.25) = 10.618...
  CHECK(metricValue(Kind::kPsnr, a, e, false) == Approx(10.61807151).epsilon(1e-8));
  CHECK(metricValue(Kind::kCosine, a, a, false) == Approx(1));
  CHECK(std::isinf(metricValue(Kind::kPsnr, a, a, false)));
}

TEST_CASE("the 99th percentile leaves one in a hundred out", "[metrics]") {
  std::vector<float> a(200, 0), e(200, 0);
  a[7] = 50, a[8] = 40, a[9] = 3; // two of 200 are one in a hundred
  CHECK(metricValue(Kind::kP99, floats(a), floats(e), false) == 3);
}

TEST_CASE("units of the last place", "[metrics]") {
  const float one = 1, next = std::nextafter(1.0f, 2.0f), third = std::nextafter(next, 2.0f);
  CHECK(metricValue(Kind::kUlp, floats({one, third}), floats({next, one}), false) == 2);
  CHECK(metricValue(Kind::kUlp, floats({-0.0f}), floats({0.0f}), false) == 0);
  // The smallest denormal on each side of zero: two steps.
  const float tiny = std::numeric_limits<float>::denorm_min();
  CHECK(metricValue(Kind::kUlp, floats({-tiny}), floats({tiny}), false) == 2);
}

TEST_CASE("the largest of each row", "[metrics]") {
  const HostTensor e = floats({1, 5, 3, 9, 2, 4}, Shape{2, 3});
  CHECK(metricValue(Kind::kTopK, floats({0, 7, 6, 9, 2, 4}, Shape{2, 3}), e, false, 1) == 1);
  CHECK(metricValue(Kind::kTopK, floats({0, 7, 6, 1, 9, 4}, Shape{2, 3}), e, false, 1) == 0.5);
  CHECK(metricValue(Kind::kTopK, floats({0, 6, 7, 4, 1, 9}, Shape{2, 3}), e, false, 2) == 1); // any order
  CHECK(metricValue(Kind::kTopK, floats({0, 6, 7, 4, 1, 9}, Shape{2, 3}), e, false, 99) == 1);
  // NaN is below every number, and among the largest where there are too few.
  const float nan = std::nanf("");
  CHECK(metricValue(Kind::kTopK, floats({nan, 7, 6, nan, nan, nan}, Shape{2, 3}), e, false, 1) == 0.5);
  const HostTensor two = floats({nan, 5, nan}, Shape{1, 3});
  CHECK(metricValue(Kind::kTopK, two, two, false, 1) == 1);
  CHECK(metricValue(Kind::kTopK, two, two, false, 2) == 0);
  CHECK(metricValue(Kind::kTopK, two, two, true, 2) == 1);
}

TEST_CASE("neighbouring integers that f64 does not tell apart", "[metrics]") {
  const HostTensor a = longs("9007199254740993"), e = longs("9007199254740992");
  for (Kind kind : {Kind::kMax, Kind::kMean, Kind::kP99, Kind::kUlp}) {
    CHECK(metricValue(kind, a, e, false) == 1);
    CHECK(metricValue(kind, longs("-4"), longs("3"), false) == 7);
  }
}

TEST_CASE("values that are not finite", "[metrics]") {
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  for (Kind kind : {Kind::kCosine, Kind::kMax, Kind::kP99, Kind::kMean, Kind::kPsnr, Kind::kUlp}) {
    CHECK(std::isnan(metricValue(kind, floats({nan, 1}), floats({nan, 1}), false)));
    CHECK_FALSE(std::isnan(metricValue(kind, floats({nan, 1}), floats({nan, 1}), true)));
    CHECK_FALSE(std::isnan(metricValue(kind, floats({inf, 1}), floats({inf, 1}), false)));
    CHECK(std::isnan(metricValue(kind, floats({inf, 1}), floats({-inf, 1}), true)));
  }
  CHECK_FALSE(metricHolds({Kind::kMax, 1e30}, std::nan("")));
  CHECK_FALSE(metricHolds({Kind::kCosine, -1}, std::nan("")));
}

TEST_CASE("metrics as text", "[metrics]") {
  for (const char *text : {"cos>=0.999", "psnr>=40", "max<=0.001", "p99<=1", "mean<=2", "ulp<=4", "topk=5"}) {
    Result<Metric> m = parseMetric(text);
    REQUIRE(m);
    CHECK(metricText(*m) == text);
  }
  for (const char *text :
       {"", "cos", "cos>=", "cos<=1", "cos>=x", "cos>=nan", "topk=0", "topk=1.5", "ulp>=4", "rms<=1"})
    CHECK(parseMetric(text).status().id() == "OPC0003");
}

TEST_CASE("a mismatch says everything that helps", "[metrics]") {
  const HostTensor a = floats({1, 2, 3, 4}), e = floats({1, 2, 4, 8});
  const Tolerance tolerance{1e-6, 1e-5};
  const std::string text = mismatchText("y", a, e, compareTensors(a, e, tolerance, false), tolerance);
  for (const char *part : {"2 of 4 values differ (50 %)", "worst at [3]: got 4, expected 8",
                           "largest absolute difference 4, largest relative difference 0.5", "99th percentile 4",
                           "mean 1.25", "cosine 0.97034459", "--rtol y:0.5", "--atol y:4"}) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  }
}
