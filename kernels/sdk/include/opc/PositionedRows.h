// Kernels whose rows follow from where the session stands, too: those that draw random numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/RowsKernel.h"

namespace opc::user_op {

/// A loop over rows that is told the seed and the step of the run. An op with such a loop may be impure: what it makes
/// depends on its inputs and on these alone, whichever rows are computed, by whom and in which order.
class PositionedRows : public RowsLoop {
public:
  /// What Run() is for other loops. `at.step` is 0 or more; outside of a session it counts the runs.
  virtual void RunAt(const RunPosition &at, const void *const *in, void *const *out, int64_t first, int64_t count,
                     void *scratch) const = 0;
  void Run(const void *const *in, void *const *out, int64_t first, int64_t count, void *scratch) const final {
    RunAt({0, 0}, in, out, first, count, scratch);
  }
};

} // namespace opc::user_op
