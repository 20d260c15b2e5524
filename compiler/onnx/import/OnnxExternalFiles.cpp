// The files beside an ONNX model that hold its tensors: within its folder, reached by no link.
// SPDX-License-Identifier: Apache-2.0
#include "MappedFiles.h"
#include "OnnxTensorData.h"
#include "OpInstance.h"
#include "PrintableText.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <iterator>

namespace opc::onnx {

namespace fs = std::filesystem;

struct ExternalFiles::File {
  File(void *data, size_t size) : bytes(static_cast<const char *>(data), size), mapped(data) {}
  explicit File(std::shared_ptr<const std::string> owner) : own(std::move(owner)), bytes(*own) {}
  File(const File &) = delete;
  ~File() {
    if (!mapped) return;
    forgetMapping(static_cast<const char *>(mapped));
    ::munmap(mapped, bytes.size());
  }
  const std::shared_ptr<const std::string> own;
  const std::string_view bytes;
  void *const mapped = nullptr;
};

namespace {

const std::string kSaveAgain =
    "a model's tensors lie in regular files of its own folder: save it again with its data beside it";

Status refused(const std::string &what, const std::string &why, const std::string &help = kSaveAgain) {
  return Status(StatusCode::kInvalidGraph, "OPC0323", what + ": " + why).withHelp(help);
}

/// Opens a relative path one folder after another, following no link. -1 with `why` on failure.
int openBeneath(const std::string &folder, const fs::path &path, std::string *why) {
  int at = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const auto count = std::distance(path.begin(), path.end());
  int64_t k = 0;
  for (const fs::path &part : path) {
    if (at < 0) break;
    const bool isLast = ++k == count;
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (isLast ? 0 : O_DIRECTORY);
    const int next = ::openat(at, part.c_str(), flags);
    const int error = errno;
    ::close(at);
    at = next;
    if (next < 0)
      *why = error == ELOOP    ? "it is a symbolic link"
             : error == ENOENT ? "there is no such file"
                               : "it cannot be opened";
    if (next < 0 && error == ENOTDIR) *why = "a part of its path is no folder, or a symbolic link";
  }
  return at;
}

} // namespace

Result<std::shared_ptr<const ExternalFiles::File>> ExternalFiles::open(const std::string &location) {
  const std::string what = "the file '" + printableName(location) + "' of the model's tensors";
  if (const auto known = files_.find(location); known != files_.end()) return known->second;
  if (model_.empty() && !beside_) return refused(what, "the model is no file of a folder, so nothing lies beside it");
  const fs::path path(location);
  if (location.empty() || path.is_absolute() || location.find('\0') != std::string::npos)
    return refused(what, "its path is not relative to the model");
  for (const fs::path &part : path)
    if (part == "..") return refused(what, "its path leaves the model's folder");
  if (beside_) {
    Result<std::shared_ptr<const std::string>> bytes = beside_(location);
    if (!bytes) return refused(what, bytes.status().message(), bytes.status().help());
    return files_[location] = std::make_shared<const File>(*std::move(bytes));
  }
  std::error_code error;
  const fs::path model = fs::weakly_canonical(model_, error); // links on the way to the model are the caller's
  if (error) return refused(what, "the model's folder cannot be found");
  std::string why = "it cannot be opened";
  const int fd = openBeneath(model.parent_path().string(), path, &why);
  if (fd < 0) return refused(what, why);
  struct stat info;
  const bool isKnown = ::fstat(fd, &info) == 0;
  if (!isKnown || !S_ISREG(info.st_mode) || info.st_nlink > 1) {
    ::close(fd);
    return refused(what,
                   !isKnown || !S_ISREG(info.st_mode) ? "it is no regular file" : "it has a second name (a hard link)");
  }
  const size_t size = static_cast<size_t>(info.st_size);
  void *data = size ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0) : nullptr;
  ::close(fd);
  if (data == MAP_FAILED) return refused(what, "it cannot be mapped");
  if (data) rememberMapping(static_cast<const char *>(data), size, (model.parent_path() / path).string());
  return files_[location] = std::make_shared<const File>(data, size);
}

bool ExternalFiles::Ranges::take(uint64_t begin, uint64_t end) {
  const auto next = taken_.lower_bound(begin);
  if (next != taken_.end() && next->first == begin) return next->second == end; // tied weights have one place
  if (next != taken_.end() && next->first < end) return false;
  if (next != taken_.begin() && std::prev(next)->second > begin) return false;
  taken_.emplace_hint(next, begin, end);
  return true;
}

Result<StoredTensor> ExternalFiles::read(const Tensor &tensor, const user_op::TensorDesc &desc) {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  const std::string what = "tensor '" + printableName(tensor.name()) + "'";
  for (const StringPair &p : tensor.external_data()) {
    const auto number = [&]() -> std::optional<uint64_t> {
      uint64_t n = 0;
      const char *end = p.value().data() + p.value().size();
      const auto [at, error] = std::from_chars(p.value().data(), end, n);
      return error == std::errc() && at == end ? std::optional<uint64_t>(n) : std::nullopt;
    };
    if (p.key() == "location") location = p.value();
    if (p.key() != "offset" && p.key() != "length") continue;
    const auto n = number();
    if (!n) return refused(what, p.key() + " '" + printableName(p.value()) + "' is no number of bytes");
    if (p.key() == "offset")
      offset = *n;
    else
      length = *n;
  }
  OPC_ASSIGN_OR_RETURN(const int64_t size, tensorBytes(desc));
  const uint64_t bytes = static_cast<uint64_t>(size);
  if (length && *length != bytes)
    return refused(what, "its length is " + std::to_string(*length) + " bytes, " + desc.toString() + " has " +
                             std::to_string(bytes));
  OPC_ASSIGN_OR_RETURN(const auto file, open(location));
  if (offset > file->bytes.size() || bytes > file->bytes.size() - offset)
    return refused(what, "it ends at byte " + std::to_string(offset) + " + " + std::to_string(bytes) + " of '" +
                             printableName(location) + "', which has " + std::to_string(file->bytes.size()));
  if (bytes > 0 && !ranges_[location].take(offset, offset + bytes))
    return refused(what, "its bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes) + " of '" +
                             printableName(location) + "' are those of another tensor in part");
  const bool isMapped = file->mapped != nullptr;
  return StoredTensor{desc, file->bytes.substr(offset, static_cast<size_t>(bytes)), file, isMapped};
}

} // namespace opc::onnx
