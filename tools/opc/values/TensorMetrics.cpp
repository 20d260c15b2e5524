// Metrics between a result and what was expected.
// SPDX-License-Identifier: Apache-2.0
#include "TensorMetrics.h"

#include "NumberText.h"
#include "TensorSpec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace opc::cli {

namespace {

struct MetricName {
  Metric::Kind kind;
  const char *name, *relation;
};
constexpr MetricName kMetrics[] = {
    {Metric::Kind::kCosine, "cos", ">="}, {Metric::Kind::kPsnr, "psnr", ">="}, {Metric::Kind::kMax, "max", "<="},
    {Metric::Kind::kP99, "p99", "<="},    {Metric::Kind::kMean, "mean", "<="}, {Metric::Kind::kUlp, "ulp", "<="},
    {Metric::Kind::kTopK, "topk", "="},
};

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The bits of a float as an integer that is ordered as the numbers are: neighbours differ by 1, -0 and 0 by 0.
template <class U> int64_t orderedBits(U bits) {
  constexpr U sign = U{1} << (sizeof(U) * 8 - 1);
  const int64_t magnitude = static_cast<int64_t>(bits & (sign - 1));
  return bits & sign ? -magnitude : magnitude;
}

/// |x - y|, which is above 0 wherever they differ.
template <class I> double between(I x, I y) {
  return static_cast<double>(x > y ? static_cast<uint64_t>(x) - static_cast<uint64_t>(y)
                                   : static_cast<uint64_t>(y) - static_cast<uint64_t>(x));
}

/// |a - e|. Neighbouring integers of 64 bits may be one number in f64.
double difference(const HostTensor &a, const HostTensor &e, int64_t i) {
  if (a.dtype() == kInt64) return between(a.as<int64_t>()[i], e.as<int64_t>()[i]);
  if (a.dtype() == kUInt64) return between(a.as<uint64_t>()[i], e.as<uint64_t>()[i]);
  return std::abs(elementAt(a, i) - elementAt(e, i));
}

/// Distance in units of the last place.
double ulpDistance(const HostTensor &a, const HostTensor &e, int64_t i) {
  if (!elementType(a.dtype()).mantissa) return difference(a, e, i);
  auto bits = [&](auto zero) {
    return between(orderedBits(a.as<decltype(zero)>()[i]), orderedBits(e.as<decltype(zero)>()[i]));
  };
  switch (GetSizeOfDataType(a.dtype())) {
  case 8: return bits(uint64_t());
  case 4: return bits(uint32_t());
  case 2: return bits(uint16_t());
  default: return bits(uint8_t());
  }
}

/// The places of the K largest of a row, sorted by place. NaN is smaller than everything.
std::vector<int64_t> largest(const HostTensor &t, int64_t begin, int64_t width, int64_t k) {
  std::vector<int64_t> order(static_cast<size_t>(width));
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](int64_t j) {
    const double v = elementAt(t, begin + j);
    return std::isnan(v) ? -std::numeric_limits<double>::infinity() : v;
  };
  std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int64_t x, int64_t y) {
    const double a = key(x), b = key(y);
    return a != b ? a > b : x < y;
  });
  order.resize(static_cast<size_t>(k));
  std::sort(order.begin(), order.end());
  return order;
}

double topKShare(const HostTensor &a, const HostTensor &e, int64_t k, bool nanEqual) {
  const DimVector &dims = a.shape().dim_vec();
  const int64_t width = dims.empty() ? 1 : dims.back();
  if (width == 0 || a.elemCount() == 0) return 1;
  k = std::min(k, width);
  const int64_t rows = a.elemCount() / width;
  int64_t same = 0;
  // Where there are fewer than K numbers, NaN are among the largest.
  const auto isAlike = [&](int64_t i) {
    const bool x = std::isnan(elementAt(a, i)), y = std::isnan(elementAt(e, i));
    return x == y && (!x || nanEqual);
  };
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<int64_t> places = largest(a, r * width, width, k);
    same += places == largest(e, r * width, width, k) &&
            std::all_of(places.begin(), places.end(), [&](int64_t j) { return isAlike(r * width + j); });
  }
  return static_cast<double>(same) / static_cast<double>(rows);
}

} // namespace

Result<Metric> parseMetric(const std::string &text) {
  for (const MetricName &m : kMetrics) {
    const std::string head = std::string(m.name) + m.relation;
    if (text.rfind(head, 0) != 0) continue;
    const auto bound = parseReal(text.substr(head.size()));
    const bool wrong = !bound || !std::isfinite(*bound) ||
                       (m.kind == Metric::Kind::kTopK && (*bound < 1 || *bound != std::floor(*bound) || *bound > 1e9));
    if (wrong) break;
    return Metric{m.kind, *bound};
  }
  return Status(StatusCode::kUsage, "OPC0003", "'" + text + "' is no metric")
      .withHelp("cos>=0.999, psnr>=40, max<=X, p99<=X, mean<=X, ulp<=4 or topk=5; for one output: NAME:cos>=0.999");
}

std::string metricText(const Metric &metric) {
  for (const MetricName &m : kMetrics)
    if (m.kind == metric.kind) return std::string(m.name) + m.relation + realText(metric.bound);
  return "";
}

double metricValue(Metric::Kind kind, const HostTensor &actual, const HostTensor &expected, bool nanEqual, int64_t k) {
  if (kind == Metric::Kind::kTopK) return topKShare(actual, expected, k, nanEqual);
  const int64_t count = actual.elemCount();
  double dot = 0, aa = 0, ee = 0, sum = 0, squares = 0, most = 0;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  int64_t used = 0;
  std::vector<double> all;
  if (kind == Metric::Kind::kP99) all.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const double a = elementAt(actual, i), e = elementAt(expected, i);
    if (!std::isfinite(a) || !std::isfinite(e)) {
      if (a == e || (nanEqual && std::isnan(a) && std::isnan(e))) continue;
      return kNaN;
    }
    const double d = kind == Metric::Kind::kUlp ? ulpDistance(actual, expected, i) : difference(actual, expected, i);
    dot += a * e, aa += a * a, ee += e * e, sum += d, squares += d * d;
    most = std::max(most, d);
    low = std::min(low, e), high = std::max(high, e);
    if (kind == Metric::Kind::kP99) all.push_back(d);
    ++used;
  }
  switch (kind) {
  case Metric::Kind::kCosine:
    if (aa == 0 && ee == 0) return 1;
    return std::clamp(dot / (std::sqrt(aa) * std::sqrt(ee)), -1.0, 1.0); // one is zero: NaN, which holds nothing
  case Metric::Kind::kMax:
  case Metric::Kind::kUlp: return most;
  case Metric::Kind::kMean: return used ? sum / static_cast<double>(used) : 0;
  case Metric::Kind::kPsnr:
    if (squares == 0) return std::numeric_limits<double>::infinity();
    return 10 * std::log10((high - low) * (high - low) * static_cast<double>(used) / squares);
  case Metric::Kind::kP99: {
    if (all.empty()) return 0;
    const size_t rank = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(all.size()))) - 1;
    std::nth_element(all.begin(), all.begin() + static_cast<ptrdiff_t>(rank), all.end());
    return all[rank];
  }
  case Metric::Kind::kTopK: break;
  }
  return kNaN;
}

bool metricHolds(const Metric &metric, double value) {
  switch (metric.kind) {
  case Metric::Kind::kCosine:
  case Metric::Kind::kPsnr: return value >= metric.bound;
  case Metric::Kind::kTopK: return value == 1;
  default: return value <= metric.bound;
  }
}

} // namespace opc::cli
