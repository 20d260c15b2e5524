// Which tasks are done sooner by one thread than by several.
// SPDX-License-Identifier: Apache-2.0
#include "ThreadGain.h"

namespace opc::runtime {

void ThreadGain::endStep() {
  const bool wasLast = step_ == 2 * kTrials;
  if (++step_ > 2 * kTrials + kPause) step_ = 1;
  if (!wasLast) return;
  for (size_t i = 0; i < alone_.size(); ++i) {
    // One thread leaves the other cores to others, and their caches as they are: it need not win by much.
    alone_[i] = least_[1][i] != kNone && least_[1][i] - least_[1][i] / 32 <= least_[0][i];
    least_[0][i] = least_[1][i] = kNone;
  }
}

} // namespace opc::runtime
