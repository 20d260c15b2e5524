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
  /// Of what is not a regular file, at most this many bytes are read: a pipe may never end.
  static constexpr uint64_t kMaxPiped = uint64_t{1} << 30;
  /// Errors: OPC0706 (missing, a directory, not readable), OPC0708 (more than maxPiped bytes).
  static Result<FileBytes> open(const std::string &path, uint64_t maxPiped = kMaxPiped);
  std::string_view view() const { return {data_, size_}; }
  bool isMapped() const { return mapped_; }
  /// The pages of `part`, a part of view(), need not stay in memory; reading them again reads the file again.
  void letGo(std::string_view part) const;

private:
  void unmap();
  const char *data_ = nullptr;
  size_t size_ = 0;
  bool mapped_ = false;
  std::string owned_;
};

/// The path of the file of which `address` is mapped by a FileBytes, or null. A page beyond the end of a file that has
/// become shorter raises SIGBUS: this is what the handler of a program can ask. Async-signal-safe.
const char *mappedFileAt(const void *address);

/// OPC0702 where one that is mapped has become shorter: within its last page no signal tells, and zeros were read.
Status mappedFilesAreWhole();

/// A file that appears under its name only when commit() has succeeded. Until then it has no name, so that whatever
/// ends the process leaves nothing; on file systems that know no unnamed files it is a temporary one beside it, and
/// those that killed processes have left are removed. "-" is the standard output, written directly. A pipe whose reader
/// has closed it takes everything, and keeps nothing.
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
  /// The same, and the file survives a loss of power: its data and its name are on the disk when this returns. A reader
  /// that has closed a pipe is an error here.
  Status commitDurably();

private:
  Status fail(const char *doing);
  Status openNamed();
  Status giveName();
  std::string path_, temporary_;
  int fd_ = -1;
  bool unnamed_ = false, unread_ = false;
};

/// Removes what killed processes of this machine have left of `path`: temporary files of AtomicFile, over a minute old,
/// whose process is gone. Failures are silent: nothing depends on it.
void removeAbandonedTemporaries(const std::string &path);

/// Writes a whole file through AtomicFile.
Status writeFileAtomically(const std::string &path, std::string_view bytes);

} // namespace opc
