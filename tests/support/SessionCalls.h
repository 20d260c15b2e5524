// Sessions in tests: load, feed, look at values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PlanBuilder.h"
#include "Session.h"
#include "opc/Convert.h"

#include <string>
#include <vector>

namespace opc::test {

/// Requires success.
void ok(const Status &status);
/// f32 values as a tensor, flat unless a shape is given.
HostTensor floats(const std::vector<float> &values, Shape shape = {});
/// The f32 values of a tensor.
std::vector<float> values(const HostTensor &tensor);
std::vector<float> values(const Result<HostTensor> &tensor);
/// An element of any type as a number. In the header: programs that are not Catch2's use it, too.
inline double element(const HostTensor &tensor, int64_t i) {
  return withElements(tensor, [&](const auto *elements) { return static_cast<double>(numberOf(elements[i])); });
}
/// A session of a plan that must load; on one thread unless the options say more.
Session loaded(const PlanBuilder &plan, SessionOptions options = {});

} // namespace opc::test
