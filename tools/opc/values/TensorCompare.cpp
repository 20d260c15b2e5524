// Comparison of a result with what was expected.
// SPDX-License-Identifier: Apache-2.0
#include "TensorCompare.h"

#include "NumberText.h"
#include "TensorMetrics.h"
#include "TensorSpec.h"

#include <cmath>
#include <limits>

namespace opc::cli {

namespace {
/// |a - e|, exact for integers up to 64 bits.
double distance(const HostTensor &a, const HostTensor &e, int64_t i, double av, double ev) {
  if (a.dtype() == kInt64) {
    const int64_t x = a.as<int64_t>()[i], y = e.as<int64_t>()[i];
    return static_cast<double>(x > y ? static_cast<uint64_t>(x) - static_cast<uint64_t>(y)
                                     : static_cast<uint64_t>(y) - static_cast<uint64_t>(x));
  }
  if (a.dtype() == kUInt64) {
    const uint64_t x = a.as<uint64_t>()[i], y = e.as<uint64_t>()[i];
    return static_cast<double>(x > y ? x - y : y - x);
  }
  return std::abs(av - ev);
}

/// Three significant digits, never below `value`: what is printed must pass when it is given back.
std::string roundedUp(double value) {
  std::string text = roundedText(value, 3);
  double step = std::abs(value) * 1e-3;
  for (double v = value; parseReal(text).value_or(value) < value && step > 0; v += step)
    text = roundedText(v + step, 3);
  return text;
}
} // namespace

Tolerance defaultTolerance(DataType type) { return {elementType(type).rtol, elementType(type).atol}; }

Tolerance otherDeviceTolerance(DataType type) {
  switch (type) {
  case kDouble: return {1e-6, 1e-8};
  case kFloat: return {1e-4, 1e-5};
  case kFloat16: return {5e-3, 5e-3};
  case kBFloat16: return {3e-2, 2e-2};
  default: return defaultTolerance(type);
  }
}

Tolerance reorderedTolerance(const HostTensor &expected) {
  const Tolerance table = defaultTolerance(expected.dtype());
  if (!IsFloatingDataType(expected.dtype())) return table;
  const bool isShort = GetSizeOfDataType(expected.dtype()) < 4; // whose table has room for sums already
  double largest = 0;
  for (int64_t i = 0; i < expected.elemCount(); ++i)
    if (const double e = std::abs(elementAt(expected, i)); std::isfinite(e)) largest = std::max(largest, e);
  const double limit = table.rtol * (isShort ? 1 : 30);
  return {limit, limit * largest};
}

Comparison compareTensors(const HostTensor &actual, const HostTensor &expected, Tolerance tolerance, bool nanEqual) {
  Comparison c;
  c.count = actual.elemCount();
  double rtol = 0, atol = 0, worstExcess = -1;
  bool noRtol = false, noAtol = false;
  for (int64_t i = 0; i < c.count; ++i) {
    const double a = elementAt(actual, i), e = elementAt(expected, i);
    double excess = 0;
    if (std::isnan(a) || std::isnan(e) || std::isinf(a) || std::isinf(e)) {
      const bool same = a == e || (nanEqual && std::isnan(a) && std::isnan(e));
      if (same) continue;
      excess = std::numeric_limits<double>::infinity();
      c.maxAbs = c.maxRel = excess; // of NaN, too
      noRtol = noAtol = true;
    } else {
      const double difference = distance(actual, expected, i, a, e);
      const double size = std::abs(e);
      c.maxAbs = std::max(c.maxAbs, difference);
      if (size > 0)
        c.maxRel = std::max(c.maxRel, difference / size);
      else if (difference > tolerance.atol)
        c.maxRel = std::numeric_limits<double>::infinity();
      const double relative = size > 0 ? tolerance.rtol * size : 0; // of no bound, too
      const double limit = tolerance.atol + relative;
      excess = difference <= limit ? 0 : difference - limit;
      if (difference > tolerance.atol) {
        if (size > 0)
          rtol = std::max(rtol, (difference - tolerance.atol) / size);
        else
          noRtol = true;
      }
      atol = std::max(atol, difference - relative);
    }
    if (excess <= 0) continue;
    ++c.mismatches;
    if (excess > worstExcess) worstExcess = excess, c.worst = i;
  }
  if (!noRtol) c.passingRtol = rtol;
  if (!noAtol) c.passingAtol = atol;
  return c;
}

std::string indexText(const Shape &shape, int64_t flat) {
  std::string text;
  for (int64_t axis = shape.NumAxes() - 1; axis >= 0; --axis) {
    const int64_t d = shape.At(axis);
    text = std::to_string(flat % d) + (text.empty() ? "" : ", ") + text;
    flat /= d;
  }
  return "[" + text + "]";
}

std::string cosineText(const HostTensor &actual, const HostTensor &expected, bool nanEqual, int digits) {
  const double cosine = metricValue(Metric::Kind::kCosine, actual, expected, nanEqual);
  return std::isnan(cosine) ? "" : ", cosine " + roundedText(cosine, digits);
}

std::string mismatchText(const std::string &name, const HostTensor &actual, const HostTensor &expected,
                         const Comparison &c, Tolerance tolerance, bool nanEqual) {
  const double share = 100.0 * static_cast<double>(c.mismatches) / static_cast<double>(std::max<int64_t>(c.count, 1));
  std::string text = name + ": " + countText(c.mismatches) + " of " + countText(c.count) + " values differ (" +
                     roundedText(share, 3) + " %) at rtol " + realText(tolerance.rtol) + ", atol " +
                     realText(tolerance.atol) + "\n";
  if (c.worst >= 0)
    text += "  worst at " + indexText(actual.shape(), c.worst) + ": got " + elementText(actual, c.worst) +
            ", expected " + elementText(expected, c.worst) + "\n";
  text += "  largest absolute difference " + roundedText(c.maxAbs, 4) + ", largest relative difference " +
          roundedText(c.maxRel, 4) + "\n";
  auto metric = [&](Metric::Kind kind, int digits) {
    return roundedText(metricValue(kind, actual, expected, nanEqual), digits);
  };
  text += "  99th percentile " + metric(Metric::Kind::kP99, 4) + ", mean " + metric(Metric::Kind::kMean, 4) +
          cosineText(actual, expected, nanEqual, 8) + "\n";
  if (c.passingRtol || c.passingAtol) {
    text += "  would pass with";
    if (c.passingRtol) text += " --rtol " + name + ":" + roundedUp(*c.passingRtol);
    if (c.passingRtol && c.passingAtol) text += " or";
    if (c.passingAtol) text += " --atol " + name + ":" + roundedUp(*c.passingAtol);
    text += "\n";
  } else {
    text += "  no tolerance would pass: values are NaN, infinite, or differ where 0 is expected\n";
  }
  return text;
}

} // namespace opc::cli
