// One training run at a time writes a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>

namespace opc::cli {

/// PATH.lock, which the process that has it holds locked: it goes with the process, however that ends. File systems and
/// directories that know no locks are used without.
class FileLock {
public:
  FileLock() = default;
  FileLock(FileLock &&o) noexcept;
  FileLock &operator=(FileLock &&o) noexcept;
  /// Removes the file.
  ~FileLock();
  /// `isShared`: against those alone that want it for themselves. Errors: OPC0718, another process has it.
  static Result<FileLock> take(const std::string &path, bool isShared = false);

private:
  std::string path_; // of the lock
  int fd_ = -1;
};

} // namespace opc::cli
