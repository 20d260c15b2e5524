// Archives in general: opening by content, directories, raw files, single tensors by specification.
// SPDX-License-Identifier: Apache-2.0
#include "TensorIo.h"

#include "NearestNames.h"
#include "TensorFormat.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>

namespace opc {

namespace fs = std::filesystem;

Result<int64_t> checkedTensorBytes(DataType type, const Shape &shape, const std::string &what,
                                   const TensorReadOptions &options) {
  int64_t bytes = static_cast<int64_t>(GetSizeOfDataType(type));
  bool empty = false, overflow = false;
  for (int64_t d : shape) {
    empty |= d == 0;
    overflow |= __builtin_mul_overflow(bytes, d, &bytes);
  }
  if (empty) return int64_t{0};
  if (overflow || static_cast<uint64_t>(bytes) > options.maxBytes)
    return Status(
        StatusCode::kInvalidGraph, "OPC0708",
        what + ": announces a tensor of type " + user_op::TensorDesc(shape, type).toString() +
            (overflow ? ", more than 2^63 bytes"
                      : ", " + std::to_string(bytes) + " bytes; the limit is " + std::to_string(options.maxBytes)));
  return bytes;
}

Status sortUnique(const std::string &path, NamedTensors *tensors) {
  std::sort(tensors->begin(), tensors->end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  for (size_t i = 1; i < tensors->size(); ++i)
    if ((*tensors)[i].first == (*tensors)[i - 1].first)
      return Status(StatusCode::kUsage, "OPC0710", path + ": two tensors named '" + (*tensors)[i].first + "'");
  return Status::ok();
}

Status TensorArchive::readInto(const std::string &key, const user_op::TensorDesc &desc, void *to) const {
  OPC_ASSIGN_OR_RETURN(HostTensor t, read(key));
  OPC_RETURN_IF_ERROR(checkTensor(t, desc, path_ + ":" + key));
  if (t.bytes()) std::memcpy(to, t.data(), t.bytes());
  return Status::ok();
}

bool TensorArchive::contains(const std::string &key) const {
  for (const TensorEntry &e : entries())
    if (e.key == key) return true;
  return false;
}

Status TensorArchive::noSuchKey(const std::string &key) const {
  std::vector<std::string> keys;
  for (const TensorEntry &e : entries()) keys.push_back(e.key);
  std::vector<std::string> near = nearestNames(key, keys, 3);
  std::string help;
  if (!near.empty()) {
    for (const std::string &n : near) help += (help.empty() ? "did you mean '" : "' or '") + n;
    help += "'?";
  } else if (keys.empty()) {
    help = "it holds no tensors";
  } else {
    for (size_t i = 0; i < keys.size() && i < 10; ++i) help += (i ? ", " : "it holds ") + keys[i];
    if (keys.size() > 10) help += " and " + std::to_string(keys.size() - 10) + " more";
  }
  return Status(StatusCode::kUsage, "OPC0705", path_ + ": no tensor '" + key + "'").withHelp(help);
}

namespace {

bool endsWith(const std::string &s, std::string_view tail) {
  return s.size() >= tail.size() && std::string_view(s).substr(s.size() - tail.size()) == tail;
}

/// "input_12.pb" with the role "input".
bool isOfDataSet(const std::string &file, const std::string &role) {
  const std::string head = role + "_";
  if (file.rfind(head, 0) != 0 || !endsWith(file, ".pb")) return false;
  const std::string number = file.substr(head.size(), file.size() - head.size() - 3);
  return !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
}

/// A directory of .npy and .pb files. A tensor "relu0/out_0" is the file relu0/out_0.npy.
class TensorDirectory final : public TensorArchive {
public:
  Status open(const std::string &path, const std::string &role) {
    path_ = path;
    const std::string other = role == "input" ? "output" : role == "output" ? "input" : "";
    std::error_code error;
    for (fs::recursive_directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
      const std::string extension = it->path().extension().string();
      if ((extension != ".npy" && extension != ".pb") || !it->is_regular_file(error)) continue;
      if (!other.empty() && isOfDataSet(it->path().filename().string(), other)) continue;
      const std::string file = fs::path(it->path().string().substr(path.size())).relative_path().string();
      std::string key = fs::path(file).replace_extension().string();
      if (extension == ".pb") {
        OPC_ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::open(it->path().string()));
        if (std::string name = onnxTensorName(bytes.view()); !name.empty()) key = std::move(name);
      }
      files_.push_back({std::move(key), file});
      if (files_.size() > 1000000)
        return Status(StatusCode::kUsage, "OPC0708", path + ": more than 1000000 tensor files");
    }
    if (error)
      return Status(StatusCode::kUsage, "OPC0706", "cannot read the directory " + path + ": " + error.message());
    std::sort(files_.begin(), files_.end());
    for (size_t i = 0; i < files_.size(); ++i) {
      if (i && files_[i].first == files_[i - 1].first)
        return Status(StatusCode::kUsage, "OPC0710",
                      path + ": " + files_[i - 1].second + " and " + files_[i].second + " are both the tensor '" +
                          files_[i].first + "'");
      entries_.push_back({files_[i].first, kInvalidDataType, {}});
    }
    return Status::ok();
  }
  const std::vector<TensorEntry> &entries() const override { return entries_; }
  Result<HostTensor> read(const std::string &key, const TensorReadOptions &options) const override {
    auto it = std::lower_bound(files_.begin(), files_.end(), key,
                               [](const auto &e, const std::string &k) { return e.first < k; });
    if (it == files_.end() || it->first != key) return noSuchKey(key);
    const std::string file = path_ + "/" + it->second;
    if (!endsWith(file, ".pb")) return readNpy(file, options);
    OPC_ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::open(file));
    return decodeOnnxTensor(bytes.view(), file, options);
  }

private:
  std::vector<std::pair<std::string, std::string>> files_; // key, path below the directory; sorted
  std::vector<TensorEntry> entries_;
};

bool isDirectory(const std::string &path) {
  struct stat st;
  return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

Result<std::unique_ptr<TensorArchive>> openByContent(FileBytes file, const std::string &path) {
  const std::string_view bytes = file.view();
  if (bytes.substr(0, 4) == "PK\x03\x04" || bytes.substr(0, 4) == "PK\x05\x06")
    return openNpzBytes(std::move(file), path);
  if (endsWith(path, ".index.json")) return openSafetensorsIndex(std::move(file), path);
  if (endsWith(path, ".safetensors") || (bytes.size() > 8 && bytes[8] == '{'))
    return openSafetensorsBytes(std::move(file), path);
  if (bytes.substr(0, 6) == "\x93NUMPY")
    return Status(StatusCode::kUsage, "OPC0701", path + ": one npy tensor where a file of named tensors is wanted")
        .withHelp("give an npz or safetensors file, or NAME=@" + path);
  return Status(StatusCode::kInvalidGraph, "OPC0701",
                path + ": " + (bytes.empty() ? "the file is empty" : "neither npz nor safetensors"))
      .withHelp("opc reads .npz, .safetensors, .safetensors.index.json and directories of .npy or .pb files");
}

} // namespace

Result<std::unique_ptr<TensorArchive>> openTensorDirectory(const std::string &path, const std::string &role) {
  auto directory = std::make_unique<TensorDirectory>();
  OPC_RETURN_IF_ERROR(directory->open(path, role));
  return std::unique_ptr<TensorArchive>(std::move(directory));
}

Result<std::unique_ptr<TensorArchive>> openTensorArchive(const std::string &path, const std::string &role) {
  if (isDirectory(path)) return openTensorDirectory(path, role);
  OPC_ASSIGN_OR_RETURN(FileBytes file, FileBytes::open(path));
  return openByContent(std::move(file), path);
}
Result<std::unique_ptr<TensorArchive>> openNpz(const std::string &path) {
  OPC_ASSIGN_OR_RETURN(FileBytes file, FileBytes::open(path));
  return openNpzBytes(std::move(file), path);
}
Result<std::unique_ptr<TensorArchive>> openSafetensors(const std::string &path) {
  OPC_ASSIGN_OR_RETURN(FileBytes file, FileBytes::open(path));
  return endsWith(path, ".index.json") ? openSafetensorsIndex(std::move(file), path)
                                       : openSafetensorsBytes(std::move(file), path);
}

Result<HostTensor> readRaw(const std::string &path, DataType type, const Shape &shape) {
  OPC_ASSIGN_OR_RETURN(FileBytes file, FileBytes::open(path));
  Result<int64_t> bytes = checkedTensorBytes(type, shape, path, {});
  if (!bytes) return bytes.status();
  if (file.view().size() != static_cast<size_t>(*bytes))
    return Status(StatusCode::kUsage, "OPC0702",
                  path + ": has " + std::to_string(file.view().size()) + " bytes, " +
                      user_op::TensorDesc(shape, type).toString() + " has " + std::to_string(*bytes));
  Result<HostTensor> t = HostTensor::createUninitialized(type, shape);
  if (!t) return t;
  if (*bytes) std::memcpy(t->data(), file.view().data(), static_cast<size_t>(*bytes));
  normalizeBools(&*t);
  return t;
}

Status writeRaw(const std::string &path, const HostTensor &tensor) {
  return writeFileAtomically(path, std::string_view(tensor.as<char>(), tensor.bytes()));
}

Result<HostTensor> readTensor(const std::string &spec, DataType expected) {
  TensorReadOptions options;
  options.voidType = expected;
  // Names may hold ':' and so may paths: the longest prefix that exists is the file.
  std::string path = spec, key;
  bool hasKey = false;
  struct stat st;
  while (path != "-" && ::stat(path.c_str(), &st) != 0) {
    const size_t colon = path.rfind(':');
    if (colon == std::string::npos || colon == 0) {
      path = spec; // the error is to name what was asked for
      hasKey = false;
      break;
    }
    path = path.substr(0, colon);
    key = spec.substr(colon + 1);
    hasKey = true;
  }
  if (hasKey) {
    OPC_ASSIGN_OR_RETURN(std::unique_ptr<TensorArchive> archive, openTensorArchive(path));
    return archive->read(key, options);
  }
  if (isDirectory(path))
    return Status(StatusCode::kUsage, "OPC0706", path + " is a directory")
        .withHelp("name a tensor in it: " + path + ":KEY");
  OPC_ASSIGN_OR_RETURN(FileBytes file, FileBytes::open(path));
  if (file.view().substr(0, 6) == "\x93NUMPY") return decodeNpy(file.view(), path, options);
  if (endsWith(path, ".pb")) return decodeOnnxTensor(file.view(), path, options);
  OPC_ASSIGN_OR_RETURN(std::unique_ptr<TensorArchive> archive, openByContent(std::move(file), path));
  if (archive->entries().size() == 1) return archive->read(archive->entries()[0].key, options);
  std::string keys;
  for (size_t i = 0; i < archive->entries().size() && i < 10; ++i) keys += (i ? ", " : "") + archive->entries()[i].key;
  return Status(StatusCode::kUsage, "OPC0705",
                path + ": holds " + std::to_string(archive->entries().size()) + " tensors; say which")
      .withHelp("write " + path + ":KEY with one of " + keys);
}

} // namespace opc
