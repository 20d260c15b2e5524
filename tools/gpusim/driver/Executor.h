// Does one operation: the bytes, the check of its order, the counters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "StandInDriver.h"

namespace opc::gpusim::driver {

class Executor {
public:
  explicit Executor(StandInDriver &driver) : driver_(driver) {}
  /// Gives up the lock while a host function runs.
  void run(DriverLock &lock, Operation &operation);

private:
  void kernel(Operation &operation, const KernelWork &work);
  void copy(Operation &operation, const CopyWork &work);
  bool copyRow(Operation &operation, const CopyWork &work, uint64_t to, uint64_t from);
  void fill(Operation &operation, const FillWork &work);
  void contribute(Operation &operation, const ContributeWork &work);
  void receive(Operation &operation, const ReceiveWork &work);
  void host(DriverLock &lock, const HostWork &work);
  bool allowed(const Operation &operation, const KernelWork &work, const std::vector<AccessSet::Interval> &bytes,
               const char *verb);
  void touch(Operation &operation, Access access, uint64_t begin, uint64_t end);
  void reportConflicts(Operation &operation);
  bool inDevice(Operation &operation, uint64_t at, uint64_t bytes, const char *role);

  StandInDriver &driver_;
  std::vector<Conflict> conflicts_;
};

/// Set while the calling thread runs a host function, which may not call the driver.
bool &inHostFunction();

} // namespace opc::gpusim::driver
