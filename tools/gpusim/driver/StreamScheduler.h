// When operations are executed: the policies late, eager and random.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Operation.h"
#include "SimOptions.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <random>

namespace opc::gpusim::driver {

using DriverLock = std::unique_lock<std::mutex>;

/// Operations that are not done yet, in the order of issue. All calls hold the driver's lock, which is given up only
/// while a host function runs.
class Scheduler {
public:
  /// `execute` does one operation; it may give up the lock.
  void start(Policy policy, uint64_t seed, std::function<void(DriverLock &, Operation &)> execute);

  /// Its needs are operations that were added before.
  /// `gates`: for how many calls of open it waits besides.
  void add(const OperationPtr &operation, size_t gates = 0);
  /// One gate less, and these needs more, which may be younger than the operation.
  void open(const OperationPtr &operation, const std::vector<OperationPtr> &needs);
  /// What the policy does behind an issue. Runs no host function: the caller may hold what that function waits for.
  void issued(DriverLock &lock);
  void runUntil(DriverLock &lock, const OperationPtr &operation);
  /// A query makes a step, or a program that polls would wait for ever.
  void step(const OperationPtr &operation, DriverLock &lock);
  /// All operations of a context; null: all that can run without further calls, of all contexts.
  void runAll(DriverLock &lock, const Context *context);
  /// They are done without being executed.
  void drop(const Context *context);
  uint64_t random() { return random_(); }
  /// Whether an operation that is not done reads or writes the host's bytes, or may.
  bool usesHost(uint64_t begin, uint64_t end) const;

private:
  void run(DriverLock &lock, Operation *operation);
  void gather(const OperationPtr &target, std::map<uint64_t, Operation *> *needed) const;
  Operation *firstNeeded(const OperationPtr &target) const;
  Operation *pickReady(); // no host function
  void finish(Operation &operation);
  void runReady(DriverLock &lock, size_t most);
  void progress(); // the thread that runs host functions nobody waits for

  Policy policy_ = Policy::kLate;
  std::mt19937_64 random_;
  std::function<void(DriverLock &, Operation &)> execute_;
  std::map<uint64_t, OperationPtr> pending_; // by number
  std::vector<Operation *> ready_;
  bool executing_ = false, progressing_ = false;
  size_t hostFunctions_ = 0; // that are pending
  std::chrono::steady_clock::time_point lastIssue_;
  std::condition_variable changed_;
};

} // namespace opc::gpusim::driver
