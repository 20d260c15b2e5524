// Machine code on disk: whose files are believed, and how they appear and go.
// SPDX-License-Identifier: Apache-2.0
#include "CodeCache.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace opc::codegen {
namespace {

constexpr char kMagic[] = "opc code 1\n", kEnding[] = ".code", kTemporary[] = ".new-", kSecret[] = "key";
constexpr size_t kSecretBytes = 32, kDigestBytes = 32, kMaxFile = 32 << 20;
constexpr int64_t kStale = 3600; // seconds after which nobody writes a file any more

class Descriptor {
public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  operator int() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

private:
  int fd_;
};

std::string sha256(std::string_view bytes) {
  llvm::SHA256 hash;
  hash.update(llvm::StringRef(bytes.data(), bytes.size()));
  const auto digest = hash.final();
  return std::string(reinterpret_cast<const char *>(digest.data()), digest.size());
}

/// HMAC, RFC 2104.
std::string digestOf(const std::string &secret, std::string_view bytes) {
  std::string inner(64, '\x36'), outer(64, '\x5c');
  for (size_t i = 0; i < secret.size(); ++i) {
    inner[i] = static_cast<char>(inner[i] ^ secret[i]);
    outer[i] = static_cast<char>(outer[i] ^ secret[i]);
  }
  return sha256(outer + sha256(inner.append(bytes)));
}

std::string fileOf(const std::string &key) { return llvm::toHex(sha256(key), /*LowerCase=*/true) + kEnding; }
bool isOurs(std::string_view name) {
  return name.size() == 64 + sizeof kEnding - 1 && name.substr(64) == kEnding &&
         name.substr(0, 64).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Why somebody else may have written it, or "".
std::string distrustOf(const struct stat &st) {
  if (st.st_uid != geteuid()) return "user " + std::to_string(st.st_uid) + " owns it";
  if ((st.st_mode & 077) == 0) return "";
  char mode[16];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(st.st_mode & 07777));
  return std::string("others may use it (mode ") + mode + ")";
}

bool isTrusted(int fd, size_t most) {
  struct stat st;
  return fd >= 0 && ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && distrustOf(st).empty() &&
         st.st_size <= static_cast<off_t>(most);
}

/// All of a file that is the user's alone.
std::string readOwn(int folder, const std::string &name, size_t most) {
  const Descriptor file(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!isTrusted(file, most)) return "";
  std::string bytes;
  char buffer[65536];
  for (ssize_t n = 0; (n = ::read(file, buffer, sizeof buffer)) != 0;) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || bytes.size() + static_cast<size_t>(n) > most) return "";
    bytes.append(buffer, static_cast<size_t>(n));
  }
  return bytes;
}

/// Writes a file under a name of its own, and gives it its name when it is whole. `replaces`: a file that is there.
bool writeOwn(int folder, const std::string &name, std::string_view bytes, bool replaces) {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) return false;
  const std::string temporary = kTemporary + std::to_string(getpid()) + "-" + llvm::utohexstr(random);
  {
    const Descriptor file(
        ::openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file < 0) return false;
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::write(file, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        ::unlinkat(folder, temporary.c_str(), 0);
        return false;
      }
      done += static_cast<size_t>(n);
    }
  }
  const bool done = replaces ? ::renameat(folder, temporary.c_str(), folder, name.c_str()) == 0
                             : ::linkat(folder, temporary.c_str(), folder, name.c_str(), 0) == 0;
  if (!done || !replaces) ::unlinkat(folder, temporary.c_str(), 0);
  return done;
}

/// Makes a folder and those above it that are missing, closed to others.
void makeFolders(const std::string &path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    ::mkdir(path.substr(0, end).c_str(), 0700);
    if (end == std::string::npos) return;
  }
}

int openOwnFolder(const std::string &path, bool makes, std::string *why) {
  int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT && makes) {
    makeFolders(path);
    fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }
  if (fd < 0) {
    *why = errno == ENOENT ? "" : std::strerror(errno);
    return -1;
  }
  Descriptor folder(fd);
  struct stat st;
  *why = ::fstat(folder, &st) == 0 ? distrustOf(st) : std::strerror(errno);
  return why->empty() ? folder.release() : -1;
}

template <class F> void forEachFile(int folder, F &&f) {
  const int fd = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = fd < 0 ? nullptr : ::fdopendir(fd);
  if (!list) {
    if (fd >= 0) ::close(fd);
    return;
  }
  while (const dirent *entry = ::readdir(list)) {
    struct stat st;
    const std::string name = entry->d_name;
    if ((isOurs(name) || name.rfind(kTemporary, 0) == 0) &&
        ::fstatat(folder, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode))
      f(name, st);
  }
  ::closedir(list);
}

} // namespace

std::string CodeCache::home() {
  auto environment = [](const char *name) {
    const char *value = std::getenv(name);
    return std::string(value && *value == '/' ? value : ""); // the specification wants an absolute path
  };
  if (const std::string base = environment("XDG_CACHE_HOME"); !base.empty()) return base + "/opc/code";
  // A home that is not there is not ours to make: accounts of services have such, and root could.
  const std::string user = environment("HOME");
  struct stat st;
  return user.empty() || ::stat(user.c_str(), &st) != 0 ? "" : user + "/.cache/opc/code";
}

CodeCache::~CodeCache() = default;

Result<std::unique_ptr<CodeCache>> CodeCache::open(const std::string &folder, uint64_t maxBytes) {
  for (const std::string &path : {folder.empty() ? home() : folder, home()}) {
    std::string why;
    if (path.empty()) continue;
    if (const Descriptor fd(openOwnFolder(path, false, &why)); !why.empty())
      return Status(StatusCode::kUsage, "OPC0010", "the cache " + path + " is not used: " + why)
          .withHelp("machine code runs from it: make it yours and closed to all others (chown, chmod 700), or give "
                    "cache.dir another folder; --no-cache does without");
  }
  return std::unique_ptr<CodeCache>(new CodeCache(folder.empty() ? home() : folder, maxBytes));
}

Result<std::unique_ptr<CodeCache>> CodeCache::ofEnvironment() {
  const char *folder = std::getenv("OPC_CACHE_DIR"), *size = std::getenv("OPC_CACHE_SIZE");
  llvm::StringRef text(size && *size ? size : "64M");
  const size_t suffix = llvm::StringRef("KMGT").find(text.back());
  uint64_t bytes = 0;
  if (suffix != llvm::StringRef::npos) text = text.drop_back();
  if (text.getAsInteger(10, bytes) || bytes == 0) return std::unique_ptr<CodeCache>();
  return open(folder ? folder : "", suffix == llvm::StringRef::npos ? bytes : bytes << 10 * (suffix + 1));
}

int CodeCache::openFolder(bool makes) const {
  std::string why;
  return folder_.empty() ? -1 : openOwnFolder(folder_, makes, &why);
}

const std::string &CodeCache::secret(bool makes) {
  if (secret_.size() == kSecretBytes) return secret_;
  std::string why;
  const Descriptor folder(home().empty() ? -1 : openOwnFolder(home(), makes, &why));
  if (folder < 0) return secret_;
  std::string found = readOwn(folder, kSecret, kSecretBytes);
  if (found.size() != kSecretBytes && makes) {
    std::string fresh(kSecretBytes, '\0');
    if (::getrandom(fresh.data(), fresh.size(), 0) != static_cast<ssize_t>(fresh.size())) return secret_;
    // Of several processes the first one's stands; what is no secret goes.
    if (!writeOwn(folder, kSecret, fresh, false) && readOwn(folder, kSecret, kSecretBytes).size() != kSecretBytes)
      writeOwn(folder, kSecret, fresh, true);
    found = readOwn(folder, kSecret, kSecretBytes);
  }
  if (found.size() == kSecretBytes) secret_ = std::move(found);
  return secret_;
}

std::string CodeCache::find(const std::string &key) {
  const std::lock_guard lock(mutex_);
  const Descriptor folder(openFolder(false));
  if (folder < 0 || secret(false).empty()) return "";
  const std::string name = fileOf(key), bytes = readOwn(folder, name, kMaxFile);
  const size_t begin = sizeof kMagic - 1 + kDigestBytes;
  if (bytes.size() < begin || bytes.compare(0, sizeof kMagic - 1, kMagic) != 0) return "";
  const std::string_view code = std::string_view(bytes).substr(begin);
  const std::string digest = digestOf(secret_, key + '\0' + std::string(code));
  if (bytes.compare(sizeof kMagic - 1, kDigestBytes, digest) != 0) return "";
  ::utimensat(folder, name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW); // it has been used
  return std::string(code);
}

void CodeCache::keep(const std::string &key, std::string_view code) {
  const std::lock_guard lock(mutex_);
  const size_t bytes = sizeof kMagic - 1 + kDigestBytes + code.size();
  if (bytes > std::min<uint64_t>(maxBytes_, kMaxFile) || secret(true).empty()) return;
  const Descriptor folder(openFolder(true));
  if (folder < 0) return;
  const std::string digest = digestOf(secret_, key + '\0' + std::string(code));
  if (!writeOwn(folder, fileOf(key), kMagic + digest + std::string(code), true)) return;
  bytes_ += bytes;
  if (!isCounted_ || bytes_ > maxBytes_) shrink(folder);
}

void CodeCache::shrink(int folder) {
  struct File {
    std::string name;
    timespec used;
    uint64_t bytes;
  };
  std::vector<File> files;
  bytes_ = 0;
  forEachFile(folder, [&](const std::string &name, const struct stat &st) {
    if (isOurs(name)) {
      files.push_back({name, st.st_mtim, static_cast<uint64_t>(st.st_size)});
      bytes_ += files.back().bytes;
    } else if (::time(nullptr) - st.st_mtim.tv_sec > kStale) {
      ::unlinkat(folder, name.c_str(), 0); // of a process that has died
    }
  });
  isCounted_ = true;
  if (bytes_ <= maxBytes_) return;
  std::sort(files.begin(), files.end(), [](const File &a, const File &b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) < std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
  });
  for (const File &f : files) { // a quarter more, so that the next one need not look again
    if (bytes_ <= maxBytes_ - maxBytes_ / 4) return;
    if (::unlinkat(folder, f.name.c_str(), 0) == 0) bytes_ -= f.bytes;
  }
}

std::vector<CodeCache::Entry> CodeCache::entries() const {
  std::vector<Entry> list;
  const Descriptor folder(openFolder(false));
  if (folder < 0) return list;
  forEachFile(folder, [&](const std::string &name, const struct stat &st) {
    if (isOurs(name)) list.push_back({name, static_cast<uint64_t>(st.st_size), st.st_mtim.tv_sec});
  });
  std::sort(list.begin(), list.end(),
            [](const Entry &a, const Entry &b) { return std::tie(a.used, a.file) < std::tie(b.used, b.file); });
  return list;
}

size_t CodeCache::clear() {
  const std::lock_guard lock(mutex_);
  const Descriptor folder(openFolder(false));
  size_t count = 0;
  if (folder < 0) return count;
  std::vector<std::string> names;
  forEachFile(folder, [&](const std::string &name, const struct stat &) { names.push_back(name); });
  for (const std::string &name : names)
    if (::unlinkat(folder, name.c_str(), 0) == 0 && isOurs(name)) ++count;
  bytes_ = 0;
  return count;
}

} // namespace opc::codegen
