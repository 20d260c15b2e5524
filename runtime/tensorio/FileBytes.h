// Whole files as bytes: mapped reading, atomic writing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace opc {

/// The bytes of a file, mapped when it is a regular file, read otherwise (a pipe; "-" is the standard input).
class FileBytes {
public:
  FileBytes() = default;
  FileBytes(FileBytes &&o) noexcept;
  FileBytes &operator=(FileBytes &&o) noexcept;
  ~FileBytes();
  /// Errors: OPC0706 (missing, a directory, not readable).
  static Result<FileBytes> open(const std::string &path);
  std::string_view view() const { return {data_, size_}; }
  /// The pages of `part`, a part of view(), need not stay in memory; reading them again reads the file again.
  void letGo(std::string_view part) const;

private:
  const char *data_ = nullptr;
  size_t size_ = 0;
  bool mapped_ = false;
  std::string owned_;
};

/// A file that appears under its name only when commit() has succeeded: it is written as a temporary file in the same
/// directory and renamed. Without commit() nothing stays. "-" is the standard output, written directly.
class AtomicFile {
public:
  AtomicFile() = default;
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;
  ~AtomicFile();
  /// Errors of all three: OPC0707.
  Status open(const std::string &path);
  Status write(const void *data, size_t bytes);
  Status commit();
  /// The same, and the file survives a loss of power: its data and its name are on the disk when this returns.
  Status commitDurably();

private:
  Status fail(const char *doing);
  std::string path_, temporary_;
  int fd_ = -1;
};

/// Removes what killed processes of this machine have left of `path`: temporary files of AtomicFile, over a minute old,
/// whose process is gone. Failures are silent: nothing depends on it.
void removeAbandonedTemporaries(const std::string &path);

/// Writes a whole file through AtomicFile.
Status writeFileAtomically(const std::string &path, std::string_view bytes);

} // namespace opc
