// Archives in general: opening by content, directories, raw files, single tensors by specification.
// SPDX-License-Identifier: Apache-2.0
#include "TensorIo.h"

#include "NearestNames.h"
#include "PrintableText.h"
#include "TensorFormat.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
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

namespace {
std::atomic<uint64_t> readLimit{UINT64_MAX};
} // namespace

void limitTensorReads(uint64_t bytes) { readLimit = bytes; }

Status checkReadLimit(uint64_t bytes, const std::string &what) {
  if (bytes <= readLimit) return Status::ok();
  return Status(StatusCode::kUnsupported, "OPC0708",
                what + ": reading it takes " + std::to_string(bytes) + " bytes of memory; the limit is " +
                    std::to_string(readLimit))
      .withHelp("raise --max-memory, or give an uncompressed .npy where the graph takes it as it is");
}

Result<FileBytes> openTensorBytes(const std::string &path) {
  struct stat st;
  if (path != "-" && ::stat(path.c_str(), &st) == 0 && S_ISCHR(st.st_mode))
    return Status(StatusCode::kUsage, "OPC0708", "cannot read " + path + ": it is a device, which may never end")
        .withHelp("give a file, or a pipe that ends: head -c 96 " + path + " | opc ... --input 'x=f32[8,3]:@-'");
  const uint64_t most = readLimit;
  return FileBytes::open(path, most < FileBytes::kMaxPiped ? most + kMostNpyHead : FileBytes::kMaxPiped);
}

Result<HostTensor> roomFor(DataType type, const Shape &shape, const std::string &what) {
  OPC_RETURN_IF_ERROR(checkReadLimit(static_cast<uint64_t>(shape.elem_cnt()) * GetSizeOfDataType(type), what));
  return HostTensor::createUninitialized(type, shape);
}

Status sortUnique(const std::string &path, NamedTensors *tensors) {
  std::sort(tensors->begin(), tensors->end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  for (size_t i = 1; i < tensors->size(); ++i)
    if ((*tensors)[i].first == (*tensors)[i - 1].first)
      return Status(StatusCode::kUsage, "OPC0710", path + ": two tensors named '" + (*tensors)[i].first + "'");
  return Status::ok();
}

Result<user_op::TensorDesc> TensorArchive::describe(const std::string &key, const TensorReadOptions &options) const {
  for (const TensorEntry &e : entries())
    if (e.key == key && e.dtype != kInvalidDataType) return user_op::TensorDesc(e.shape, e.dtype);
  OPC_ASSIGN_OR_RETURN(const HostTensor t, read(key, options));
  return t.desc();
}

Status TensorArchive::readInto(const std::string &key, const user_op::TensorDesc &desc, void *to) const {
  TensorReadOptions options;
  options.voidType = desc.data_type();
  OPC_ASSIGN_OR_RETURN(const HostTensor t, read(key, options));
  OPC_RETURN_IF_ERROR(checkTensor(t, desc, path_ + ":" + key));
  if (t.bytes()) std::memcpy(to, t.data(), t.bytes());
  return Status::ok();
}

void copyAndLetGo(const FileBytes &file, std::string_view part, void *to) {
  constexpr size_t kStep = size_t{1} << 22;
  for (size_t at = 0; at < part.size(); at += kStep) {
    const std::string_view step = part.substr(at, kStep);
    std::memcpy(static_cast<char *>(to) + at, step.data(), step.size());
    file.letGo(step);
  }
}

bool TensorArchive::contains(const std::string &key) const {
  for (const TensorEntry &e : entries())
    if (e.key == key) return true;
  return false;
}

Status TensorArchive::noSuchKey(const std::string &key) const {
  std::vector<std::string> keys;
  for (const TensorEntry &e : entries()) keys.push_back(e.key);
  return Status(StatusCode::kUsage, "OPC0705", path_ + ": no tensor '" + key + "'")
      .withHelp(didYouMeanAmong(key, keys, "it holds no tensors", "it holds ", 3));
}

namespace {

bool endsWith(const std::string &s, std::string_view tail) {
  return s.size() >= tail.size() && std::string_view(s).substr(s.size() - tail.size()) == tail;
}

bool isNpy(std::string_view bytes) { return bytes.substr(0, 6) == "\x93NUMPY"; }

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
        OPC_ASSIGN_OR_RETURN(FileBytes bytes, openTensorBytes(it->path().string()));
        if (std::string name = onnxTensorName(bytes.view()); !name.empty()) key = std::move(name);
      }
      files_.push_back({printableName(key), file});
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
    OPC_ASSIGN_OR_RETURN(const TensorFile file, fileOf(key));
    return file.read(options.voidType);
  }
  Result<user_op::TensorDesc> describe(const std::string &key, const TensorReadOptions &options) const override {
    OPC_ASSIGN_OR_RETURN(const TensorFile file, fileOf(key));
    return file.describe(options.voidType);
  }
  Status readInto(const std::string &key, const user_op::TensorDesc &desc, void *to) const override {
    OPC_ASSIGN_OR_RETURN(const TensorFile file, fileOf(key));
    return file.readInto(desc, to);
  }

  bool contains(const std::string &key) const override { return find(key) != files_.end(); }

private:
  using Files = std::vector<std::pair<std::string, std::string>>; // key, path below the directory; sorted
  Files::const_iterator find(const std::string &key) const {
    const auto it = std::lower_bound(files_.begin(), files_.end(), key,
                                     [](const auto &e, const std::string &k) { return e.first < k; });
    return it != files_.end() && it->first == key ? it : files_.end();
  }
  Result<TensorFile> fileOf(const std::string &key) const {
    const auto it = find(key);
    if (it == files_.end()) return noSuchKey(key);
    return TensorFile::open(path_ + "/" + it->second);
  }
  Files files_;
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
  if (isNpy(bytes))
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
  OPC_ASSIGN_OR_RETURN(FileBytes file, openTensorBytes(path));
  return openByContent(std::move(file), path);
}
Result<std::unique_ptr<TensorArchive>> openNpz(const std::string &path) {
  OPC_ASSIGN_OR_RETURN(FileBytes file, openTensorBytes(path));
  return openNpzBytes(std::move(file), path);
}
Result<std::unique_ptr<TensorArchive>> openSafetensors(const std::string &path) {
  OPC_ASSIGN_OR_RETURN(FileBytes file, openTensorBytes(path));
  return endsWith(path, ".index.json") ? openSafetensorsIndex(std::move(file), path)
                                       : openSafetensorsBytes(std::move(file), path);
}

Result<HostTensor> readRaw(const std::string &path, DataType type, const Shape &shape) {
  OPC_ASSIGN_OR_RETURN(int64_t bytes, checkedTensorBytes(type, shape, path, {}));
  OPC_RETURN_IF_ERROR(checkReadLimit(static_cast<uint64_t>(bytes), path));
  Result<FileBytes> opened = FileBytes::open(path, static_cast<uint64_t>(bytes));
  if (!opened && opened.status().id() == "OPC0708") // what comes may never end
    return Status(StatusCode::kUsage, "OPC0702",
                  path + ": more than the " + std::to_string(bytes) + " bytes of " +
                      user_op::TensorDesc(shape, type).toString() + " come");
  OPC_ASSIGN_OR_RETURN(const FileBytes file, std::move(opened));
  if (file.view().size() != static_cast<size_t>(bytes))
    return Status(StatusCode::kUsage, "OPC0702",
                  path + ": has " + std::to_string(file.view().size()) + " bytes, " +
                      user_op::TensorDesc(shape, type).toString() + " has " + std::to_string(bytes));
  OPC_ASSIGN_OR_RETURN(HostTensor t, roomFor(type, shape, path));
  if (bytes) std::memcpy(t.data(), file.view().data(), static_cast<size_t>(bytes));
  normalize(&t);
  return t;
}

Status writeRaw(const std::string &path, const HostTensor &tensor) {
  return writeFileAtomically(path, std::string_view(tensor.as<char>(), tensor.bytes()));
}

Result<TensorFile> TensorFile::open(const std::string &spec) {
  TensorFile t;
  // Names may hold ':' and so may paths: the longest prefix that exists is the file.
  std::string &path = t.path_ = spec;
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
    t.key_ = spec.substr(colon + 1);
    hasKey = true;
  }
  if (hasKey) {
    OPC_ASSIGN_OR_RETURN(t.archive_, openTensorArchive(path));
    return t;
  }
  if (isDirectory(path))
    return Status(StatusCode::kUsage, "OPC0706", path + " is a directory")
        .withHelp("name a tensor in it: " + path + ":KEY");
  OPC_ASSIGN_OR_RETURN(t.file_, openTensorBytes(path));
  if (isNpy(t.file_.view()) || endsWith(path, ".pb")) return t;
  OPC_ASSIGN_OR_RETURN(t.archive_, openByContent(std::move(t.file_), path));
  if (t.archive_->entries().size() == 1) {
    t.key_ = t.archive_->entries()[0].key;
    return t;
  }
  std::string keys;
  for (size_t i = 0; i < t.archive_->entries().size() && i < 10; ++i)
    keys += (i ? ", " : "") + t.archive_->entries()[i].key;
  return Status(StatusCode::kUsage, "OPC0705",
                path + ": holds " + std::to_string(t.archive_->entries().size()) + " tensors; say which")
      .withHelp("write " + path + ":KEY with one of " + keys);
}

Result<user_op::TensorDesc> TensorFile::describe(DataType expected) const {
  TensorReadOptions options;
  options.voidType = expected;
  if (archive_) return archive_->describe(key_, options);
  if (isNpy(file_.view())) {
    OPC_ASSIGN_OR_RETURN(const NpyLayout layout, npyLayout(file_.view(), path_, options));
    return layout.desc;
  }
  if (const auto desc = onnxTensorDesc(file_.view())) return *desc;
  OPC_ASSIGN_OR_RETURN(const HostTensor t, read(expected));
  return t.desc();
}

Result<HostTensor> TensorFile::read(DataType expected) const {
  TensorReadOptions options;
  options.voidType = expected;
  if (archive_) return archive_->read(key_, options);
  return isNpy(file_.view()) ? decodeNpy(file_.view(), path_, options) : decodeOnnxTensor(file_.view(), path_, options);
}

Status TensorFile::readInto(const user_op::TensorDesc &desc, void *to) const {
  if (archive_) return archive_->readInto(key_, desc, to);
  if (isNpy(file_.view())) {
    TensorReadOptions options;
    options.voidType = desc.data_type();
    OPC_ASSIGN_OR_RETURN(const std::optional<NpyView> view, viewNpy(file_.view(), path_, options));
    if (view && view->desc == desc) {
      const size_t bytes = static_cast<size_t>(desc.shape().elem_cnt()) * GetSizeOfDataType(desc.data_type());
      copyAndLetGo(file_, std::string_view(view->data, bytes), to);
      return Status::ok();
    }
  }
  OPC_ASSIGN_OR_RETURN(const HostTensor t, read(desc.data_type()));
  OPC_RETURN_IF_ERROR(checkTensor(t, desc, path_));
  if (t.bytes()) std::memcpy(to, t.data(), t.bytes());
  return Status::ok();
}

Status TensorFile::forEachBlock(const Block &each, DataType expected) const {
  TensorReadOptions options;
  options.voidType = expected;
  std::optional<NpyView> view;
  if (!archive_ && isNpy(file_.view())) {
    OPC_ASSIGN_OR_RETURN(view, viewNpy(file_.view(), path_, options));
  }
  if (!view) {
    OPC_ASSIGN_OR_RETURN(const HostTensor t, read(expected));
    return each(t.data(), 0, t.elemCount());
  }
  constexpr int64_t kBlock = int64_t{1} << 18;
  const size_t size = GetSizeOfDataType(view->desc.data_type());
  const int64_t count = view->desc.shape().elem_cnt();
  std::vector<std::max_align_t> block((static_cast<size_t>(std::min(kBlock, count)) * size + sizeof(std::max_align_t)) /
                                      sizeof(std::max_align_t));
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t n = std::min(kBlock, count - at);
    const std::string_view part(view->data + static_cast<size_t>(at) * size, static_cast<size_t>(n) * size);
    copyAndLetGo(file_, part, block.data());
    OPC_RETURN_IF_ERROR(each(block.data(), at, n));
  }
  return Status::ok();
}

Result<HostTensor> readTensor(const std::string &spec, DataType expected) {
  OPC_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::open(spec));
  return file.read(expected);
}

} // namespace opc
