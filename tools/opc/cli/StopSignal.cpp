// Signals as requests to stop where it does no harm.
// SPDX-License-Identifier: Apache-2.0
#include "StopSignal.h"

#include <atomic>
#include <cstring>
#include <pthread.h>
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
  // Who starts ranks says it again until they have ended: it may have been too early for some.
  if (number == SIGUSR1) (void)std::signal(SIGUSR1, SIG_IGN);
  caughtSignal = number;
}

// A process that a kernel in Python has forked is to end when it is told to, also at once: what arrives before it has
// other handlers waits.
thread_local sigset_t beforeFork;
void holdSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int number : StopSignal::kSignals) sigaddset(&held, number);
  pthread_sigmask(SIG_BLOCK, &held, &beforeFork);
}
void giveSignals() { pthread_sigmask(SIG_SETMASK, &beforeFork, nullptr); }
void letChildEnd() {
  for (const int number : StopSignal::kSignals) {
    struct sigaction now{};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == handle) std::signal(number, SIG_DFL);
  }
  giveSignals();
}
} // namespace

StopSignal::StopSignal(bool hangup, const char *early) : count_(hangup ? kAll : kWithoutHangup) {
  caughtSignal = 0;
  earlyText = early;
  static const int forks = pthread_atfork(holdSignals, giveSignals, letChildEnd);
  (void)forks; // without memory for it children end by SIGKILL alone
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
  for (int i = 0; i < count_; ++i)
    if (kSignals[i] != SIGUSR1 || caughtSignal != SIGUSR1) sigaction(kSignals[i], &before_[i], nullptr);
}

int StopSignal::caught() { return caughtSignal; }

} // namespace opc::cli
