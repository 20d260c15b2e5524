// Threads that the system may refuse.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace opc::runtime {

/// A thread that does `work`. OPC0614 where the system gives no more of them.
template <class Work> Result<std::thread> startedThread(Work &&work) {
  try {
    return std::thread(std::forward<Work>(work));
  } catch (const std::system_error &e) {
    return Status(StatusCode::kExecution, "OPC0614", std::string("the system gives no more threads: ") + e.what())
        .withHelp("a limit on processes or memory: ulimit -u and -v show them; fewer ranks need fewer threads");
  }
}

} // namespace opc::runtime
