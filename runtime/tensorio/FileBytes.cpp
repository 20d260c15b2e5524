// Whole files as bytes.
// SPDX-License-Identifier: Apache-2.0
#include "FileBytes.h"

#include "MappedFiles.h"
#include "WriteFailure.h"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace opc {
namespace {

Status cannotRead(const std::string &path, const std::string &why) {
  return Status(StatusCode::kUsage, "OPC0706", "cannot read " + path + ": " + why);
}

Status readAll(int fd, const std::string &path, uint64_t most, std::string *out) {
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n == 0) return Status::ok();
    if (n < 0) {
      if (errno == EINTR) continue;
      return cannotRead(path, std::strerror(errno));
    }
    if (out->size() + static_cast<uint64_t>(n) > most)
      return Status(StatusCode::kUsage, "OPC0708",
                    path + ": more than " + std::to_string(most) + " bytes come, which is the limit")
          .withHelp("a regular file may be larger: it is mapped, not read");
    out->append(buffer, static_cast<size_t>(n));
  }
}

constexpr char kTemporaryMark[] = ".tmp.";

std::string temporaryName(const std::string &path) {
  static std::atomic<unsigned> serial{0};
  return path + kTemporaryMark + std::to_string(::getpid()) + "." + std::to_string(serial++);
}

std::string folderOf(const std::string &path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

} // namespace

FileBytes::FileBytes(FileBytes &&o) noexcept { *this = std::move(o); }
FileBytes &FileBytes::operator=(FileBytes &&o) noexcept {
  if (this == &o) return *this;
  unmap();
  mapped_ = o.mapped_;
  size_ = o.size_;
  owned_ = std::move(o.owned_);
  data_ = mapped_ ? o.data_ : owned_.data(); // a short string moves with its object
  o.data_ = nullptr;
  o.size_ = 0;
  o.mapped_ = false;
  return *this;
}
FileBytes::~FileBytes() { unmap(); }

void FileBytes::unmap() {
  if (!mapped_) return;
  forgetMapping(data_);
  ::munmap(const_cast<char *>(data_), size_);
}

Result<FileBytes> FileBytes::open(const std::string &path, uint64_t maxPiped) {
  FileBytes f;
  if (path == "-") {
    OPC_RETURN_IF_ERROR(readAll(STDIN_FILENO, "the standard input", maxPiped, &f.owned_));
  } else {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return cannotRead(path, std::strerror(errno));
    struct Closer {
      int fd;
      ~Closer() { ::close(fd); }
    } closer{fd};
    struct stat st;
    if (::fstat(fd, &st) != 0) return cannotRead(path, std::strerror(errno));
    if (S_ISDIR(st.st_mode)) return cannotRead(path, "it is a directory");
    if (S_ISREG(st.st_mode) && st.st_size > 0) {
      void *p = ::mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
      if (p != MAP_FAILED) {
        f.data_ = static_cast<const char *>(p);
        f.size_ = static_cast<size_t>(st.st_size);
        f.mapped_ = true;
        rememberMapping(f.data_, f.size_, path);
        return f;
      }
    }
    OPC_RETURN_IF_ERROR(readAll(fd, path, maxPiped, &f.owned_));
  }
  f.data_ = f.owned_.data();
  f.size_ = f.owned_.size();
  return f;
}

void FileBytes::letGo(std::string_view part) const {
  if (!mapped_ || part.empty()) return;
  const uintptr_t page = 4096, begin = reinterpret_cast<uintptr_t>(part.data()) & ~(page - 1),
                  end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  ::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

const char *mappedFileAt(const void *address) { return pathOfMapping(address); }

Status mappedFilesAreWhole() { return mappingsAreWhole(); }

AtomicFile::~AtomicFile() {
  if (fd_ >= 0 && path_ != "-") ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status AtomicFile::fail(const char *doing) { return cannotWrite(doing, path_, errno); }

Status AtomicFile::open(const std::string &path) {
  path_ = path;
  if (path == "-") {
    fd_ = STDOUT_FILENO;
    return Status::ok();
  }
  struct stat st;
  if (::stat(path.c_str(), &st) == 0) {
    if (S_ISDIR(st.st_mode)) {
      errno = EISDIR;
      return fail("write");
    }
    if (!S_ISREG(st.st_mode)) { // a device or a pipe cannot be replaced
      fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      return fd_ < 0 ? fail("open") : Status::ok();
    }
  } else if (errno == ELOOP) {
    return fail("open"); // links that lead to each other
  }
  path_ = followLinks(path); // what a link leads to is replaced, not the link
  // /proc is what gives such a file its name.
  if (::access("/proc/self/fd", X_OK) == 0)
    fd_ = ::open(folderOf(path_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  unnamed_ = fd_ >= 0;
  if (!unnamed_) OPC_RETURN_IF_ERROR(openNamed());
  // What a user has closed to others, or opened, stays so. Of what is not their own file nothing is taken over.
  if (::lstat(path_.c_str(), &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == ::geteuid())
    (void)::fchmod(fd_, st.st_mode & 0777); // there are file systems without modes
  return Status::ok();
}

Status AtomicFile::openNamed() {
  removeAbandonedTemporaries(path_);
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string name = temporaryName(path_);
    fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ >= 0) {
      temporary_ = std::move(name);
      return Status::ok();
    }
    if (errno != EEXIST) break;
  }
  return fail("create");
}

/// A name that nothing has yet is given at once; a file that is there can be replaced only by one with a name.
Status AtomicFile::giveName() {
  unnamed_ = false;
  const std::string self = "/proc/self/fd/" + std::to_string(fd_);
  const auto link = [&](const std::string &name) {
    return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (link(path_)) return Status::ok();
  for (int attempt = 0; errno == EEXIST && attempt < 100; ++attempt) {
    std::string name = temporaryName(path_);
    if (!link(name)) continue;
    temporary_ = std::move(name);
    return Status::ok();
  }
  return fail("create");
}

Status AtomicFile::write(const void *data, size_t bytes) {
  const char *p = static_cast<const char *>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, p, bytes < (size_t{1} << 30) ? bytes : size_t{1} << 30);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EPIPE) { // as of `| head`
        unread_ = true;
        return Status::ok();
      }
      return fail("write");
    }
    p += n;
    bytes -= static_cast<size_t>(n);
  }
  return Status::ok();
}

Status AtomicFile::commit() {
  if (path_ == "-") return Status::ok(); // any other file may have its number where that is closed
  if (unnamed_) OPC_RETURN_IF_ERROR(giveName());
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) return fail("close"); // a full network disk tells only here
  if (temporary_.empty()) return Status::ok();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail("create");
  temporary_.clear();
  return Status::ok();
}

Status AtomicFile::commitDurably() {
  // Before the rename: the new name must never stand for data that is not there yet.
  const bool isNew = unnamed_ || !temporary_.empty();
  if (unread_) return cannotWrite("write", path_, EPIPE);
  if (fd_ >= 0 && isNew && ::fsync(fd_) != 0) return fail("write");
  OPC_RETURN_IF_ERROR(commit());
  if (!isNew) return Status::ok();
  const int fd = ::open(folderOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Status::ok(); // a directory that may be written and not read: the name is not in our hands
  (void)::fsync(fd);               // some file systems refuse to sync directories; the rename has succeeded
  ::close(fd);
  return Status::ok();
}

void removeAbandonedTemporaries(const std::string &path) {
  namespace fs = std::filesystem;
  const fs::path file(followLinks(path));
  const std::string prefix = file.filename().string() + kTemporaryMark;
  std::error_code error;
  for (fs::directory_iterator it(file.has_parent_path() ? file.parent_path() : fs::path("."), error), end;
       !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.compare(0, prefix.size(), prefix) != 0) continue;
    int process = 0;
    const char *last = name.data() + name.size();
    const auto number = std::from_chars(name.data() + prefix.size(), last, process);
    if (number.ec != std::errc() || number.ptr == last || *number.ptr != '.' || process <= 0) continue;
    struct stat st;
    if (::kill(process, 0) == 0 || errno != ESRCH || ::lstat(it->path().c_str(), &st) != 0) continue;
    if (S_ISREG(st.st_mode) && ::time(nullptr) - st.st_mtime > 60) ::unlink(it->path().c_str());
  }
}

Status writeFileAtomically(const std::string &path, std::string_view bytes) {
  AtomicFile f;
  OPC_RETURN_IF_ERROR(f.open(path));
  OPC_RETURN_IF_ERROR(f.write(bytes.data(), bytes.size()));
  return f.commit();
}

} // namespace opc
