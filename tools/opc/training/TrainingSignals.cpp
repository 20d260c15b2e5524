// Signals that end a training run after its step.
// SPDX-License-Identifier: Apache-2.0
#include "TrainingSignals.h"

namespace opc::cli {

namespace {
volatile std::sig_atomic_t caughtSignal = 0;
} // namespace

SignalWatch::SignalWatch() {
  caughtSignal = 0;
  struct sigaction action{};
  action.sa_handler = [](int number) { caughtSignal = number; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < kCount; ++i) {
    sigaction(kSignals[i], &action, &before_[i]);
    const bool mayIgnore = kSignals[i] == SIGHUP || kSignals[i] == SIGQUIT;
    if (mayIgnore && before_[i].sa_handler == SIG_IGN) sigaction(kSignals[i], &before_[i], nullptr);
  }
}

SignalWatch::~SignalWatch() {
  for (int i = 0; i < kCount; ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int SignalWatch::caught() { return caughtSignal; }

} // namespace opc::cli
