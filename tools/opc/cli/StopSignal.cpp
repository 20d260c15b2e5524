// SIGINT and SIGTERM, caught once.
// SPDX-License-Identifier: Apache-2.0
#include "StopSignal.h"

namespace opc::cli {

namespace {
volatile std::sig_atomic_t caughtSignal = 0;
}

StopSignal::StopSignal() {
  caughtSignal = 0;
  struct sigaction action{};
  action.sa_handler = [](int number) { caughtSignal = number; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &interrupt_);
  sigaction(SIGTERM, &action, &terminate_);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &interrupt_, nullptr);
  sigaction(SIGTERM, &terminate_, nullptr);
}

int StopSignal::caught() const { return caughtSignal; }

} // namespace opc::cli
