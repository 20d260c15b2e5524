// Signals as requests to stop where it does no harm.
// SPDX-License-Identifier: Apache-2.0
#include "StopSignal.h"

#include <atomic>
#include <cstring>
#include <unistd.h>

namespace opc::cli {

namespace {
volatile std::sig_atomic_t caughtSignal = 0;
std::atomic<const char *> earlyText = nullptr;

void handle(int number) {
  if (const char *text = earlyText.load()) {
    (void)!write(STDERR_FILENO, text, std::strlen(text));
    _exit(128 + number);
  }
  caughtSignal = number;
}
} // namespace

StopSignal::StopSignal(bool hangup, const char *early) : count_(hangup ? kAll : kWithoutHangup) {
  caughtSignal = 0;
  earlyText = early;
  struct sigaction action{};
  action.sa_handler = handle;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < count_; ++i) {
    sigaction(kSignals[i], &action, &before_[i]);
    if (i >= kWithoutHangup && before_[i].sa_handler == SIG_IGN) sigaction(kSignals[i], &before_[i], nullptr);
  }
}

void StopSignal::begin() { earlyText = nullptr; }

StopSignal::~StopSignal() {
  earlyText = nullptr;
  for (int i = 0; i < count_; ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

int StopSignal::caught() { return caughtSignal; }

} // namespace opc::cli
