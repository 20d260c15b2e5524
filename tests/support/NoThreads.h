// A system that gives no more threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <pthread.h>

namespace opc::test {

/// While it lives no thread begins: there is no room for its stack.
class NoThreads {
public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    pthread_attr_setstacksize(&huge, size_t{1} << 47); // all addresses that a process has
    pthread_setattr_default_np(&huge);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads &) = delete;
  NoThreads &operator=(const NoThreads &) = delete;

private:
  pthread_attr_t before_;
};

} // namespace opc::test
