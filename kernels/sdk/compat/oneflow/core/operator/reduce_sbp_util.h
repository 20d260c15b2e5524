// Which axes a reduction removes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/operator/operator.h"

namespace oneflow {

struct ReduceSbpUtil final {
  static std::function<bool(int32_t)> MakePredicatorIsReducedAxis(const HashSet<int32_t> &axes, int32_t) {
    return [axes](int32_t axis) { return axes.count(axis) != 0; };
  }
  static std::function<bool(int32_t)> MakePredicatorIsReducedAxis(const PbRf<int32_t> &axes, int32_t rank) {
    return MakePredicatorIsReducedAxis(HashSet<int32_t>(axes.begin(), axes.end()), rank);
  }
};

} // namespace oneflow
