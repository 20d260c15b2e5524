// Tensors of tests: from numbers, from a generator, and compared.
// SPDX-License-Identifier: Apache-2.0
#include "TestTensor.h"
#include "opc/Dispatch.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace opc::test {

double valueFor(DataType type, double value) {
  return visit(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>) return value != 0 ? 1.0 : 0.0;
    if constexpr (isNarrowInteger<T>) return std::clamp<double>(std::floor(value), T::kLowest, T::kHighest);
    if constexpr (std::is_integral_v<T>)
      return std::max(std::floor(value), static_cast<double>(std::numeric_limits<T>::min()));
    return value;
  });
}

TestTensor::TestTensor(OpTensor tensor) : OpTensor(std::move(tensor)) {
  for (int64_t i = 0; i < elements(); ++i) values.push_back(element(*this, i));
}

void TestTensor::requireType(DataType wanted) const {
  INFO("a tensor of " << desc().toString());
  REQUIRE(type() == wanted);
}

TestTensor tensorOf(DataType type, Shape shape, const std::vector<double> &values) {
  REQUIRE(static_cast<int64_t>(values.size()) == shape.elem_cnt());
  return tensorFrom(type, std::move(shape), [&](int64_t i) { return values[static_cast<size_t>(i)]; });
}

TestTensor randomTensor(DataType type, Shape shape, unsigned seed, double lo, double hi) {
  std::mt19937 generator(seed);
  return tensorFrom(type, std::move(shape),
                    [&](int64_t) { return lo + (hi - lo) * (static_cast<double>(generator()) / 4294967296.0); });
}

std::vector<float> noise(int64_t n, uint32_t seed) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float &x : v) {
    seed = seed * 1664525u + 1013904223u;
    x = static_cast<float>(seed >> 8) / 8388608.0f - 1;
  }
  return v;
}

double toleranceOf(DataType type) {
  switch (type) {
  case kDouble: return 1e-12;
  case kFloat16: return 4e-3;
  case kBFloat16: return 3e-2;
  default: return 2e-5;
  }
}

std::string compare(const TestTensor &found, const std::vector<double> &expected, double rtol, double atol) {
  if (found.values.size() != expected.size())
    return std::to_string(found.values.size()) + " elements, expected " + std::to_string(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const double f = found.values[i], e = expected[i];
    if (f == e || (std::isnan(f) && std::isnan(e)) || std::fabs(f - e) <= atol + rtol * std::fabs(e)) continue;
    std::ostringstream text;
    text.precision(17);
    text << "element " << i << " of " << expected.size() << ": found " << f << ", expected " << e;
    return text.str();
  }
  return "";
}

void requireClose(const TestTensor &found, const std::vector<double> &expected, double rtol, double atol) {
  REQUIRE(compare(found, expected, rtol, atol) == "");
}

} // namespace opc::test
