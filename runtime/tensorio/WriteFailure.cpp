// Why a file cannot be written.
// SPDX-License-Identifier: Apache-2.0
#include "WriteFailure.h"

#include "FileBytes.h"

#include <cerrno>
#include <climits>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace opc {

Status cannotWrite(const std::string &doing, const std::string &path, int error) {
  const bool isDisk = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
  const Status status(isDisk ? StatusCode::kExecution : StatusCode::kUsage, "OPC0707",
                      "cannot " + doing + " " + (path == "-" ? "the standard output" : path) + ": " +
                          std::generic_category().message(error));
  if (error == EMFILE) return Status(status).withHelp("a limit on open files: ulimit -n shows it");
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

namespace {

/// A link in a folder where everybody may make one leads where its owner wants: as the kernel, opc follows only those
/// of its own user and of the folder's owner.
bool isOthersLink(const std::string &path) {
  const size_t slash = path.rfind('/');
  struct stat link, folder;
  if (::lstat(path.c_str(), &link) != 0 ||
      ::stat(slash == std::string::npos ? "." : path.substr(0, slash + 1).c_str(), &folder) != 0)
    return false;
  const bool isOpen = (folder.st_mode & S_ISVTX) && (folder.st_mode & S_IWOTH);
  return isOpen && link.st_uid != ::geteuid() && link.st_uid != folder.st_uid;
}

} // namespace

std::string followLinks(const std::string &path) {
  constexpr int kMostLinks = 40; // as many as the kernel follows
  std::string at = path;
  struct stat st;
  if (::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) return path;
  for (int i = 0; i < kMostLinks; ++i) {
    char target[PATH_MAX];
    const ssize_t n = ::readlink(at.c_str(), target, sizeof target);
    if (n < 0 || isOthersLink(at)) return at;
    const std::string to(target, static_cast<size_t>(n));
    const size_t slash = at.rfind('/');
    at = to.rfind('/', 0) == 0 || slash == std::string::npos ? to : at.substr(0, slash + 1) + to;
  }
  return path;
}

} // namespace opc
