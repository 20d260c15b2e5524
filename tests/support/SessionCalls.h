// Sessions in tests: load, feed, look at values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PlanBuilder.h"
#include "Session.h"

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
/// A session of a plan that must load; on one thread unless the options say more.
Session loaded(const PlanBuilder &plan, SessionOptions options = {});

} // namespace opc::test
