// Counting forks.
// SPDX-License-Identifier: Apache-2.0
#include "ForkCount.h"

#include <pthread.h>

namespace opc::runtime {
namespace {

int generation = 0; // written in a child before it has a second thread

[[maybe_unused]] const int watching = ::pthread_atfork(nullptr, nullptr, [] { ++generation; });

} // namespace

int forkCount() { return generation; }

} // namespace opc::runtime
