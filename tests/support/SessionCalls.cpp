// Sessions in tests: load, feed, look at values.
// SPDX-License-Identifier: Apache-2.0
#include "SessionCalls.h"

#include <catch2/catch.hpp>

namespace opc::test {

void ok(const Status &status) {
  INFO(status.toString());
  REQUIRE(status.isOk());
}

HostTensor floats(const std::vector<float> &values, Shape shape) {
  if (shape.NumAxes() == 0) shape = Shape{static_cast<int64_t>(values.size())};
  Result<HostTensor> t = HostTensor::create(kFloat, shape);
  ok(t.status());
  std::copy(values.begin(), values.end(), t->as<float>());
  return *std::move(t);
}

std::vector<float> values(const HostTensor &tensor) {
  return {tensor.as<float>(), tensor.as<float>() + tensor.elemCount()};
}
std::vector<float> values(const Result<HostTensor> &tensor) {
  ok(tensor.status());
  return values(*tensor);
}

Session loaded(const PlanBuilder &plan, SessionOptions options) {
  if (options.threads == 0) options.threads = 1;
  Result<Session> session = Session::load(plan.encode(), registry(), options);
  ok(session.status());
  return *std::move(session);
}

} // namespace opc::test
