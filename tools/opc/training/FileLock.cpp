// One training run at a time writes a file.
// SPDX-License-Identifier: Apache-2.0
#include "FileLock.h"

#include "WriteFailure.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace opc::cli {

FileLock::FileLock(FileLock &&o) noexcept : path_(std::move(o.path_)), fd_(std::exchange(o.fd_, -1)) {}

FileLock &FileLock::operator=(FileLock &&o) noexcept {
  std::swap(path_, o.path_);
  std::swap(fd_, o.fd_);
  return *this;
}

FileLock::~FileLock() {
  if (fd_ < 0) return;
  // Before the lock goes: nobody else can have it yet. Of those who share it the last one removes it.
  if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) ::unlink(path_.c_str());
  ::close(fd_);
}

Result<FileLock> FileLock::take(const std::string &path, bool isShared) {
  FileLock lock;
  struct stat st, named;
  if (::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) return lock; // a device or a pipe is shared
  lock.path_ = followLinks(path) + ".lock";
  for (int attempt = 0; attempt < 100; ++attempt) {
    const int fd = ::open(lock.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0) return FileLock();
    if (::flock(fd, (isShared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
      const int error = errno;
      char text[32] = "";
      const ssize_t n = ::pread(fd, text, sizeof text - 1, 0);
      ::close(fd);
      if (error != EWOULDBLOCK) return FileLock();
      const std::string process(text, n > 0 ? static_cast<size_t>(n) : 0);
      return Status(StatusCode::kUsage, "OPC0718",
                    "another training run writes " + path + (process.empty() ? "" : " (process " + process + ")"))
          .withHelp("wait for it, or give this run another name");
    }
    lock.fd_ = fd;
    // Whoever had it may have removed the file between the two calls.
    if (::fstat(fd, &st) == 0 && ::stat(lock.path_.c_str(), &named) == 0 && st.st_ino == named.st_ino &&
        st.st_dev == named.st_dev)
      break;
    ::close(std::exchange(lock.fd_, -1));
  }
  if (lock.fd_ < 0) return FileLock();
  const std::string process = std::to_string(::getpid());
  if (::ftruncate(lock.fd_, 0) == 0) (void)!::pwrite(lock.fd_, process.data(), process.size(), 0);
  return lock;
}

} // namespace opc::cli
