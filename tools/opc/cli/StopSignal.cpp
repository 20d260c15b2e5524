// Signals as requests to stop where it does no harm.
// SPDX-License-Identifier: Apache-2.0
#include "StopSignal.h"

namespace opc::cli {

namespace {
volatile std::sig_atomic_t caughtSignal = 0;
}

StopSignal::StopSignal(bool hangup) : count_(hangup ? kAll : kWithoutHangup) {
  caughtSignal = 0;
  struct sigaction action{};
  action.sa_handler = [](int number) { caughtSignal = number; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < count_; ++i) {
    sigaction(kSignals[i], &action, &before_[i]);
    if (i >= kWithoutHangup && before_[i].sa_handler == SIG_IGN) sigaction(kSignals[i], &before_[i], nullptr);
  }
}

StopSignal::~StopSignal() {
  for (int i = 0; i < count_; ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int StopSignal::caught() { return caughtSignal; }

} // namespace opc::cli
