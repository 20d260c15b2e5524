// --observe: checks of how kernels behave, while they run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Option.h"
#include "Session.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

/// What is observed.
struct ObserveKinds {
  bool sync = false, access = false, profile = false;
  bool any() const { return sync || access || profile; }
};
/// Kinds with commas between; nothing for a text that is none.
std::optional<ObserveKinds> readObserveKinds(const std::string &text);
/// --observe.
Option observeOption(ObserveKinds *to);

/// sync: each task is named in the log before it runs; on one rank it is over before the next one begins.
class TaskTurns final : public RunObserver {
public:
  Status before(const ObservedTask &task, int64_t step, TaskData &data) override;
  Status after(const ObservedTask &, int64_t, TaskData &) override { return Status::ok(); }
};

/// access: a kernel leaves its inputs as they are, but for those that its op declares to change and those whose memory
/// the plan has given it for a result.
class AccessCheck final : public RunObserver {
public:
  Status before(const ObservedTask &task, int64_t step, TaskData &data) override;
  /// OPC0627 with the op and the input.
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override;

private:
  std::mutex lock_;                                // tasks of several streams run at once
  std::map<uint32_t, std::vector<size_t>> hashes_; // of the inputs of the task that runs, by stream
};

} // namespace opc::cli
