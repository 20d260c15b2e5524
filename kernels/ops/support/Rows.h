// The task that does rows one by one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/Operator.h"

namespace opc::ops {

/// f(r) for each of `rows`, in parallel, `grain` of them at a time.
template <class F> std::unique_ptr<BoundKernel> bindRows(int64_t rows, int64_t grain, F f) {
  return bindTask([=](DeviceCtx *dev) {
    dev->parallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      const F row = f; // a local one, so that what it holds stays in registers
      for (int64_t r = begin; r < end; ++r) row(r);
    });
  });
}

} // namespace opc::ops
