// Why a file cannot be written.
// SPDX-License-Identifier: Apache-2.0
#include "WriteFailure.h"

#include "FileBytes.h"

#include <cerrno>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace opc {

Status cannotWrite(const std::string &doing, const std::string &path, int error) {
  const bool isDisk = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
  const Status status(isDisk ? StatusCode::kExecution : StatusCode::kUsage, "OPC0707",
                      "cannot " + doing + " " + (path == "-" ? "the standard output" : path) + ": " +
                          std::generic_category().message(error));
  return error == EFBIG ? Status(status).withHelp("a limit on the size of files: ulimit -f shows it") : status;
}

Status tryWriting(const std::string &path) {
  if (path == "-") return Status::ok();
  struct stat st;
  if (::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
    return ::access(path.c_str(), W_OK) == 0 ? Status::ok() : cannotWrite("write", path, errno);
  AtomicFile file;
  return file.open(path);
}

} // namespace opc
