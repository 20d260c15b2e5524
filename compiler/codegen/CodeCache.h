// Machine code of regions on disk, for the processes of one user.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace opc::codegen {

/// A folder of files, one for each piece of code. A file from which code runs is the user's own work and nobody
/// else's: the folder and all in it belong to the user and are closed to everybody else, and each file carries a digest
/// that is made with a secret of the user's (`key` in home()), so that a file which came with somebody's folder is
/// none. What does not fit is as if it were not there, and is replaced. Many processes may use one folder: a file
/// appears under its name when it is whole.
class CodeCache {
public:
  /// Where the secret lies, and the files if nothing else is said: $XDG_CACHE_HOME/opc/code, ~/.cache/opc/code. Empty
  /// where there is neither.
  static std::string home();
  /// `folder`: empty for home(). It is made when something is kept. Errors: OPC0010 for a folder that is not the
  /// user's alone.
  static Result<std::unique_ptr<CodeCache>> open(const std::string &folder, uint64_t maxBytes);
  /// As OPC_CACHE_DIR and OPC_CACHE_SIZE say; null where the size is 0, or none.
  static Result<std::unique_ptr<CodeCache>> ofEnvironment();
  ~CodeCache();

  /// What has been kept for `key`; empty where there is nothing. Several threads may call these.
  std::string find(const std::string &key);
  /// Keeps `code`, and lets go of what has been used least recently where all of it would be more than maxBytes.
  /// Failures are nobody's affair: the code runs all the same.
  void keep(const std::string &key, std::string_view code);

  struct Entry {
    std::string file;
    uint64_t bytes = 0;
    int64_t used = 0; // seconds since 1970
  };
  /// By use, the oldest first.
  std::vector<Entry> entries() const;
  /// Removes all files of the cache, and says how many there were.
  size_t clear();
  const std::string &folder() const { return folder_; }
  uint64_t maxBytes() const { return maxBytes_; }

private:
  CodeCache(std::string folder, uint64_t maxBytes) : folder_(std::move(folder)), maxBytes_(maxBytes) {}
  /// The open folder, or -1 where it is not there or not to be trusted.
  int openFolder(bool makes) const;
  /// The secret; empty where there is none.
  const std::string &secret(bool makes);
  void shrink(int folder);

  const std::string folder_;
  const uint64_t maxBytes_;
  std::mutex mutex_;
  std::string secret_;
  uint64_t bytes_ = 0; // of what is there, as far as this process knows
  bool isCounted_ = false;
};

} // namespace opc::codegen
