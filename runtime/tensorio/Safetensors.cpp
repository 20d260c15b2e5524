// safetensors: an 8-byte length, a JSON header, the tensors' bytes. Also the index of a sharded checkpoint.
// Format: https://github.com/huggingface/safetensors#format
// SPDX-License-Identifier: Apache-2.0
#include "OutsideTensors.h"
#include "TensorFormat.h"

#include "PrintableText.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace opc {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000; // the reference implementation's limit

struct Record {
  std::string key, dtype;
  std::vector<int64_t> shape;
  std::vector<uint64_t> offsets;
  bool hasDtype = false, hasShape = false, hasOffsets = false;
};

std::string typeNames() {
  std::string names;
  for (DataType type : dataTypes<types::All>())
    names += (names.empty() ? "" : ", ") + std::string(elementType(type).safetensors);
  return names;
}

DataType typeOf(const std::string &name) {
  for (DataType type : dataTypes<types::All>())
    if (name == elementType(type).safetensors) return type;
  return kInvalidDataType;
}

/// Reads the header as a stream of events: a document model would hide duplicate keys and take ten times the memory.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
public:
  std::vector<Record> records;
  std::map<std::string, std::string> metadata;
  std::string problem;

  bool null() override { return fail("a null"); }
  bool boolean(bool) override { return fail("a bool"); }
  bool number_float(double, const std::string &) override { return fail("a fraction"); }
  bool binary(binary_t &) override { return fail("binary data"); }
  bool number_integer(int64_t v) override {
    return v < 0 ? fail("a negative number") : number_unsigned(static_cast<uint64_t>(v));
  }
  bool number_unsigned(uint64_t v) override {
    if (!inArray_) return fail("a number outside a list");
    Record &r = records.back();
    if (field_ == "shape") {
      if (v > INT64_MAX) return fail("a dimension over 2^63");
      if (r.shape.size() >= static_cast<size_t>(kMaxRank)) return fail("rank over " + std::to_string(kMaxRank));
      r.shape.push_back(static_cast<int64_t>(v));
      return true;
    }
    if (r.offsets.size() == 2) return fail("more than two data_offsets");
    r.offsets.push_back(v);
    return true;
  }
  bool string(string_t &v) override {
    if (metadata_) {
      if (depth_ != 2) return fail("metadata that is not text to text");
      metadata[field_] = v;
      return true;
    }
    if (depth_ != 2 || field_ != "dtype") return fail("text where none belongs");
    records.back().dtype = printableName(v);
    return true;
  }
  bool start_object(size_t) override {
    if (inArray_ || ++depth_ > 2) return fail("an object inside an object");
    return true;
  }
  bool end_object() override {
    if (depth_-- == 2 && !metadata_) {
      const Record &r = records.back();
      if (!r.hasDtype || !r.hasShape || !r.hasOffsets || r.offsets.size() != 2)
        return fail(std::string("no ") + (!r.hasDtype ? "dtype" : !r.hasShape ? "shape" : "pair of data_offsets"));
    }
    return true;
  }
  bool key(string_t &given) override {
    const std::string k = printableName(given);
    if (depth_ == 1) {
      metadata_ = k == "__metadata__";
      if (metadata_) return hadMetadata_ ? fail("two __metadata__") : (hadMetadata_ = true);
      if (!keys_.emplace(k, 0).second) {
        duplicate = k;
        return false;
      }
      records.push_back({});
      records.back().key = k;
      return true;
    }
    field_ = k;
    if (metadata_) return true;
    Record &r = records.back();
    bool *seen = k == "dtype"          ? &r.hasDtype
                 : k == "shape"        ? &r.hasShape
                 : k == "data_offsets" ? &r.hasOffsets
                                       : nullptr;
    if (!seen) return fail("unknown field '" + k + "'");
    if (*seen) return fail("field '" + k + "' twice");
    return *seen = true;
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || metadata_ || inArray_ || field_ == "dtype") return fail("a list where none belongs");
    return inArray_ = true;
  }
  bool end_array() override {
    inArray_ = false;
    return true;
  }
  bool parse_error(size_t position, const std::string &, const nlohmann::json::exception &) override {
    problem = "no valid JSON at byte " + std::to_string(position);
    return false;
  }
  std::string duplicate;

private:
  bool fail(const std::string &what) {
    problem = (records.empty() ? "" : "tensor '" + records.back().key + "': ") + what;
    return false;
  }
  std::unordered_map<std::string, int> keys_;
  std::string field_;
  int depth_ = 0;
  bool metadata_ = false, hadMetadata_ = false, inArray_ = false;
};

class SafetensorsArchive final : public TensorArchive {
public:
  Status open(FileBytes file, const std::string &path) {
    file_ = std::move(file);
    path_ = path;
    const std::string_view b = file_.view();
    if (b.size() < 8) return bad("OPC0702", "truncated: " + std::to_string(b.size()) + " bytes");
    uint64_t length;
    std::memcpy(&length, b.data(), 8);
    if (length > kMaxHeader)
      return bad("OPC0701", "not a safetensors file: it announces a header of " + std::to_string(length) + " bytes");
    if (length > b.size() - 8) return bad("OPC0702", "truncated in the header");
    const std::string_view header = b.substr(8, length);
    if (header.empty() || header[0] != '{')
      return bad("OPC0701", "not a safetensors file: its header does not begin with '{'");
    HeaderReader reader;
    if (!nlohmann::json::sax_parse(header.begin(), header.end(), &reader)) {
      if (!reader.duplicate.empty() || reader.problem.empty())
        return bad("OPC0710", "two tensors named '" + reader.duplicate + "'");
      return bad("OPC0701", "bad header: " + reader.problem);
    }
    metadata_ = std::move(reader.metadata);
    return addRecords(std::move(reader.records), 8 + length);
  }
  const std::vector<TensorEntry> &entries() const override { return entries_; }
  Result<HostTensor> read(const std::string &key, const TensorReadOptions &options) const override {
    auto it = index_.find(key);
    if (it == index_.end()) return noSuchKey(key);
    const TensorEntry &e = entries_[it->second];
    const std::string_view data = data_[it->second].second;
    if (e.dtype == kInvalidDataType)
      return Status(StatusCode::kUnsupported, "OPC0709",
                    path_ + ":" + key + ": element type " + data_[it->second].first + " has no counterpart in opc")
          .withHelp("opc has " + typeNames());
    if (data.size() > options.maxBytes)
      return Status(StatusCode::kInvalidGraph, "OPC0708",
                    path_ + ":" + key + ": " + std::to_string(data.size()) + " bytes; the limit is " +
                        std::to_string(options.maxBytes));
    OPC_ASSIGN_OR_RETURN(HostTensor t, roomFor(e.dtype, e.shape, path_ + ":" + key));
    if (isPackedInFiles(e.dtype))
      unpackElements(e.dtype, data, t.as<char>(), t.bytes());
    else if (!data.empty())
      std::memcpy(t.data(), data.data(), data.size()); // the file aligns nothing
    normalize(&t);
    return t;
  }

  bool contains(const std::string &key) const override { return index_.count(key) != 0; }
  /// Null where it is not here.
  const TensorEntry *find(const std::string &key) const {
    const auto it = index_.find(key);
    return it == index_.end() ? nullptr : &entries_[it->second];
  }

  Status readInto(const std::string &key, const user_op::TensorDesc &desc, void *to) const override {
    auto it = index_.find(key);
    if (it == index_.end() || entries_[it->second].dtype != desc.data_type() || isLoose(desc.data_type()) ||
        entries_[it->second].shape != desc.shape())
      return TensorArchive::readInto(key, desc, to);
    copyAndLetGo(file_, data_[it->second].second, to);
    return Status::ok();
  }

private:
  Status bad(const char *id, const std::string &why) const {
    return Status(StatusCode::kInvalidGraph, id, path_ + ": " + printableName(why));
  }

  Status addRecords(std::vector<Record> records, uint64_t begin) {
    const std::string_view b = file_.view();
    const uint64_t size = b.size() - begin;
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (Record &r : records) {
      const uint64_t from = r.offsets[0], to = r.offsets[1];
      if (from > to) return bad("OPC0701", "tensor '" + r.key + "' ends before it begins");
      if (to > size)
        return bad("OPC0702", "truncated: tensor '" + r.key + "' ends at byte " + std::to_string(to) +
                                  " of the data, which has " + std::to_string(size));
      const DataType type = typeOf(r.dtype);
      Shape shape(std::move(r.shape));
      if (type != kInvalidDataType) {
        OPC_ASSIGN_OR_RETURN(int64_t bytes, checkedTensorBytes(type, shape, path_ + ":" + r.key, {}));
        if (isPackedInFiles(type)) bytes = static_cast<int64_t>(packedBytes(type, static_cast<size_t>(bytes)));
        if (static_cast<uint64_t>(bytes) != to - from)
          return bad("OPC0701", "tensor '" + r.key + "' is " + user_op::TensorDesc(shape, type).toString() + " (" +
                                    std::to_string(bytes) + " bytes) but has " + std::to_string(to - from) + " bytes");
      }
      ranges.push_back({from, to});
      index_.emplace(r.key, entries_.size());
      data_.push_back({std::move(r.dtype), b.substr(begin + from, to - from)});
      entries_.push_back({std::move(r.key), type, std::move(shape)});
    }
    std::sort(ranges.begin(), ranges.end());
    uint64_t at = 0;
    for (const auto &[from, to] : ranges) {
      if (from != at)
        return bad("OPC0701",
                   from < at ? "tensors overlap" : "a hole of " + std::to_string(from - at) + " bytes between tensors");
      at = to;
    }
    if (at != size) return bad("OPC0701", std::to_string(size - at) + " bytes that belong to no tensor");
    return Status::ok();
  }

  FileBytes file_;
  std::vector<TensorEntry> entries_;
  std::vector<std::pair<std::string, std::string_view>> data_; // the file's dtype name, the bytes
  std::unordered_map<std::string, size_t> index_;
};

class ShardedArchive final : public TensorArchive {
public:
  Status open(const FileBytes &file, const std::string &path) {
    path_ = path;
    const nlohmann::json index = nlohmann::json::parse(file.view().begin(), file.view().end(), nullptr, false);
    auto bad = [&](const char *id, const std::string &why) {
      return Status(StatusCode::kInvalidGraph, id, path + ": " + printableName(why));
    };
    if (index.is_discarded() || !index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
      return bad("OPC0701", "not a safetensors index: no weight_map");
    const size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "" : path.substr(0, slash + 1);
    std::unordered_map<std::string, size_t> shardOf;
    for (const auto &[given, value] : index["weight_map"].items()) {
      const std::string key = printableName(given);
      if (!value.is_string()) return bad("OPC0701", "the shard of '" + key + "' is not text");
      const std::string name = value.get<std::string>();
      // The index is data: it must not make opc read files elsewhere.
      if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos || name.find('\0') != std::string::npos)
        return bad("OPC0701", "the shard '" + name + "' is not a plain file name");
      auto [it, isNew] = shardOf.emplace(name, shards_.size());
      if (isNew) {
        // Whoever wrote the index says that it is there; a pipe would be waited for. Links are how caches store shards.
        struct stat st;
        if (::stat((directory + name).c_str(), &st) != 0)
          return bad("OPC0702", "the shard '" + name + "' cannot be read: " + std::strerror(errno));
        if (!S_ISREG(st.st_mode)) return bad("OPC0701", "the shard '" + name + "' is no regular file");
        OPC_ASSIGN_OR_RETURN(FileBytes bytes, openTensorBytes(directory + name));
        shards_.push_back(std::make_unique<SafetensorsArchive>());
        OPC_RETURN_IF_ERROR(shards_.back()->open(std::move(bytes), directory + name));
      }
      const TensorEntry *found = shards_[it->second]->find(key);
      if (!found) return bad("OPC0701", "shard '" + name + "' has no tensor '" + key + "'");
      inShard_.emplace(key, it->second);
      entries_.push_back(*found);
    }
    return Status::ok();
  }
  const std::vector<TensorEntry> &entries() const override { return entries_; }
  Result<HostTensor> read(const std::string &key, const TensorReadOptions &options) const override {
    auto it = inShard_.find(key);
    if (it == inShard_.end()) return noSuchKey(key);
    return shards_[it->second]->read(key, options);
  }
  bool contains(const std::string &key) const override { return inShard_.count(key) != 0; }
  Status readInto(const std::string &key, const user_op::TensorDesc &desc, void *to) const override {
    auto it = inShard_.find(key);
    return it == inShard_.end() ? noSuchKey(key) : shards_[it->second]->readInto(key, desc, to);
  }

private:
  std::vector<std::unique_ptr<SafetensorsArchive>> shards_;
  std::unordered_map<std::string, size_t> inShard_; // where the index says
  std::vector<TensorEntry> entries_;
};

} // namespace

Result<std::unique_ptr<TensorArchive>> openSafetensorsBytes(FileBytes file, const std::string &path) {
  auto archive = std::make_unique<SafetensorsArchive>();
  OPC_RETURN_IF_ERROR(archive->open(std::move(file), path));
  return std::unique_ptr<TensorArchive>(std::move(archive));
}
Result<std::unique_ptr<TensorArchive>> openSafetensorsIndex(FileBytes file, const std::string &path) {
  auto archive = std::make_unique<ShardedArchive>();
  OPC_RETURN_IF_ERROR(archive->open(file, path));
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

namespace {

size_t bytesInFile(const OutsideTensor &t) {
  return packedBytes(t.desc.data_type(), static_cast<size_t>(t.desc.shape().elem_cnt()));
}

std::string headerOf(const std::vector<OutsideTensor> &tensors, const std::map<std::string, std::string> &metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const OutsideTensor &t : tensors) {
    header[t.name] = {{"dtype", elementType(t.desc.data_type()).safetensors},
                      {"shape", t.desc.shape().dim_vec()},
                      {"data_offsets", {at, at + bytesInFile(t)}}};
    at += bytesInFile(t);
  }
  // Names that are not UTF-8 are replaced rather than thrown at.
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((64 - (8 + text.size()) % 64) % 64, ' ');
  return text;
}

/// Sorted by name.
Status write(const std::string &path, const std::vector<OutsideTensor> &tensors,
             const std::map<std::string, std::string> &metadata, bool durable) {
  const std::string text = headerOf(tensors, metadata);
  const uint64_t length = text.size();
  AtomicFile f;
  OPC_RETURN_IF_ERROR(f.open(path));
  OPC_RETURN_IF_ERROR(f.write(&length, 8));
  OPC_RETURN_IF_ERROR(f.write(text.data(), text.size()));
  for (const OutsideTensor &t : tensors) {
    const auto toFile = [&](std::string_view bytes) { return f.write(bytes.data(), bytes.size()); };
    if (!isPackedInFiles(t.desc.data_type())) {
      OPC_RETURN_IF_ERROR(t.write(toFile));
      continue;
    }
    std::string bytes;
    OPC_RETURN_IF_ERROR(t.write([&](std::string_view piece) {
      bytes += piece;
      return Status::ok();
    }));
    OPC_RETURN_IF_ERROR(toFile(packElements(t.desc.data_type(), bytes)));
  }
  return durable ? f.commitDurably() : f.commit();
}

Status write(const std::string &path, NamedTensors tensors, const std::map<std::string, std::string> &metadata,
             bool durable) {
  OPC_RETURN_IF_ERROR(sortUnique(path, &tensors));
  std::vector<OutsideTensor> list;
  for (const auto &[key, t] : tensors)
    list.push_back(
        {key, t->desc(), [t = t](const OutsideTensor::Sink &sink) { return sink({t->as<char>(), t->bytes()}); }});
  return write(path, list, metadata, durable);
}

} // namespace

Status writeSafetensors(const std::string &path, NamedTensors tensors) {
  return write(path, std::move(tensors), {}, false);
}
Status writeOutsideTensors(const std::string &path, const std::vector<OutsideTensor> &tensors) {
  return write(path, tensors, {}, false);
}
Status writeCheckpointFile(const std::string &path, NamedTensors tensors,
                           const std::map<std::string, std::string> &metadata) {
  return write(path, std::move(tensors), metadata, true);
}

} // namespace opc
