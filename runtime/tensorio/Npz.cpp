// npz: zip archives of npy members. Reader: stored and deflated, zip64, data descriptors. Writer: stored, reproducible.
// Format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT
// SPDX-License-Identifier: Apache-2.0
#include "PrintableText.h"
#include "TensorFormat.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <zlib.h>

namespace opc {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50, kEndSignature = 0x06054b50,
                   kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20;

template <class T> T load(std::string_view s, uint64_t at) {
  T v;
  std::memcpy(&v, s.data() + at, sizeof v);
  return v;
}
template <class T> void append(std::string *s, T v) { s->append(reinterpret_cast<const char *>(&v), sizeof v); }

uint32_t crcOf(uint32_t crc, const void *data, size_t n) {
  return static_cast<uint32_t>(crc32_z(crc, static_cast<const Bytef *>(data), n));
}

struct Member {
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0, size = 0, header = 0, data = 0;
};

class NpzArchive final : public TensorArchive {
public:
  Status open(FileBytes file, const std::string &path) {
    file_ = std::move(file);
    path_ = path;
    return readDirectory();
  }
  const std::vector<TensorEntry> &entries() const override { return entries_; }

  Result<HostTensor> read(const std::string &key, const TensorReadOptions &options) const override {
    OPC_ASSIGN_OR_RETURN(const Member *m, find(key, options));
    const std::string what = path_ + ":" + key;
    const std::string_view packed = file_.view().substr(m->data, m->packed);
    if (m->method == 0) {
      if (crcOf(0, packed.data(), packed.size()) != m->crc) return damaged(what, "its checksum does not match");
      return decodeNpy(packed, what, options);
    }
    // What the header says decides before anything is unpacked.
    OPC_ASSIGN_OR_RETURN(const NpyLayout layout, npyLayout(headOf(*m), what, options));
    OPC_RETURN_IF_ERROR(checkNpySize(layout, m->size - std::min<uint64_t>(m->size, layout.begin), what));
    OPC_RETURN_IF_ERROR(checkReadLimit(m->size, what));
    std::string bytes(m->size, '\0');
    OPC_RETURN_IF_ERROR(inflateInto(packed, {{bytes.data(), m->size}}, what));
    if (crcOf(0, bytes.data(), bytes.size()) != m->crc) return damaged(what, "its checksum does not match");
    return decodeNpy(bytes, what, options);
  }

  bool contains(const std::string &key) const override { return index_.count(key) != 0; }

  Result<user_op::TensorDesc> describe(const std::string &key, const TensorReadOptions &options) const override {
    OPC_ASSIGN_OR_RETURN(const Member *m, find(key, options));
    OPC_ASSIGN_OR_RETURN(const NpyLayout layout, npyLayout(headOf(*m), path_ + ":" + key, options));
    return layout.desc;
  }

  /// Elements that lie in the member as in memory are unpacked where they belong.
  Status readInto(const std::string &key, const user_op::TensorDesc &desc, void *to) const override {
    TensorReadOptions options;
    options.voidType = desc.data_type();
    OPC_ASSIGN_OR_RETURN(const Member *m, find(key, options));
    const std::string what = path_ + ":" + key;
    const std::string head = headOf(*m);
    const Result<NpyLayout> layout = npyLayout(head, what, options);
    const uint64_t bytes = static_cast<uint64_t>(desc.shape().elem_cnt()) * GetSizeOfDataType(desc.data_type());
    if (!layout || !layout->isPlain || layout->desc != desc || m->size != layout->begin + bytes)
      return TensorArchive::readInto(key, desc, to);
    const std::string_view packed = file_.view().substr(m->data, m->packed);
    std::string begin(layout->begin, '\0');
    if (m->method == 0) {
      begin = packed.substr(0, layout->begin);
      copyAndLetGo(file_, packed.substr(layout->begin), to);
    } else {
      OPC_RETURN_IF_ERROR(inflateInto(packed, {{begin.data(), begin.size()}, {static_cast<char *>(to), bytes}}, what));
    }
    if (crcOf(crcOf(0, begin.data(), begin.size()), to, bytes) != m->crc)
      return damaged(what, "its checksum does not match");
    return Status::ok();
  }

private:
  struct Room {
    char *data;
    uint64_t size;
  };

  Result<const Member *> find(const std::string &key, const TensorReadOptions &options) const {
    auto it = index_.find(key);
    if (it == index_.end()) return noSuchKey(key);
    const Member &m = members_[it->second];
    if (m.method != 0 && (m.size > options.maxBytes || m.size / options.maxRatio > m.packed))
      return Status(StatusCode::kInvalidGraph, "OPC0708",
                    path_ + ":" + key + ": announces " + std::to_string(m.size) + " bytes from " +
                        std::to_string(m.packed) + " packed ones, more than deflate can hold: a zip bomb or damage");
    return &m;
  }

  /// The first bytes of a member, as many as a header may have; fewer when it is damaged.
  std::string headOf(const Member &m) const {
    const std::string_view packed = file_.view().substr(m.data, m.packed);
    if (m.method == 0) return std::string(packed.substr(0, kMostNpyHead));
    std::string head(std::min<uint64_t>(m.size, kMostNpyHead), '\0');
    z_stream z{};
    if (inflateInit2(&z, -15) != Z_OK) return "";
    z.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(packed.data()));
    z.avail_in = static_cast<uInt>(std::min<uint64_t>(packed.size(), 1u << 20));
    z.next_out = reinterpret_cast<Bytef *>(head.data());
    z.avail_out = static_cast<uInt>(head.size());
    (void)inflate(&z, Z_SYNC_FLUSH);
    head.resize(head.size() - z.avail_out);
    inflateEnd(&z);
    return head;
  }

  static Status damaged(const std::string &what, const std::string &why) {
    return Status(StatusCode::kInvalidGraph, "OPC0702", what + ": damaged: " + why);
  }
  Status bad(const std::string &why) const {
    return Status(StatusCode::kInvalidGraph, "OPC0701", path_ + ": bad zip archive: " + printableName(why));
  }

  /// Unpacks into one room after the other; together they are as large as the member.
  static Status inflateInto(std::string_view packed, const std::vector<Room> &rooms, const std::string &what) {
    z_stream z{};
    if (inflateInit2(&z, -15) != Z_OK)
      return Status(StatusCode::kExecution, "OPC0708", what + ": no memory to unpack it");
    uint64_t in = 0, done = 0, at = 0, size = 0;
    for (const Room &r : rooms) size += r.size;
    auto room = rooms.begin();
    int code = Z_OK;
    char sink;
    while (code == Z_OK) {
      for (; room != rooms.end() && at == room->size; ++room) at = 0;
      const uint64_t step = std::min<uint64_t>(packed.size() - in, 1u << 30),
                     left = room == rooms.end() ? 0 : std::min<uint64_t>(room->size - at, 1u << 30);
      z.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(packed.data() + in));
      z.avail_in = static_cast<uInt>(step);
      // With no room left one spare byte shows whether the stream goes on.
      z.next_out = reinterpret_cast<Bytef *>(left ? room->data + at : &sink);
      z.avail_out = static_cast<uInt>(left ? left : 1);
      code = inflate(&z, Z_NO_FLUSH);
      const uint64_t used = step - z.avail_in, made = (left ? left : 1) - z.avail_out;
      in += used;
      if (!left && made) code = Z_DATA_ERROR;
      if (left) done += made, at += made;
      if (code == Z_OK && used == 0 && made == 0) code = Z_BUF_ERROR;
    }
    inflateEnd(&z);
    if (code != Z_STREAM_END || done != size || in != packed.size())
      return damaged(what, "unpacking gives " + std::to_string(done) + " bytes of " + std::to_string(size));
    return Status::ok();
  }

  Status readDirectory() {
    const std::string_view b = file_.view();
    if (b.size() < kEndBytes) return b.empty() ? bad("the file is empty") : bad("truncated");
    const uint64_t lowest = b.size() - std::min<uint64_t>(b.size(), kEndBytes + 65535);
    uint64_t end = b.size() - kEndBytes;
    for (;; --end) {
      if (load<uint32_t>(b, end) == kEndSignature && end + kEndBytes + load<uint16_t>(b, end + 20) == b.size()) break;
      if (end == lowest)
        return Status(StatusCode::kInvalidGraph, b.substr(0, 2) == "PK" ? "OPC0702" : "OPC0701",
                      path_ + (b.substr(0, 2) == "PK" ? ": truncated zip archive: its directory is missing"
                                                      : ": not an npz (zip) file"));
    }
    uint64_t count = load<uint16_t>(b, end + 10), size = load<uint32_t>(b, end + 12),
             offset = load<uint32_t>(b, end + 16);
    uint64_t directoryEnd = end;
    if (load<uint16_t>(b, end + 4) != 0 && load<uint16_t>(b, end + 4) != 0xffff)
      return bad("it is split over several disks");
    if (end >= kLocatorBytes && load<uint32_t>(b, end - kLocatorBytes) == kLocator64Signature) {
      const uint64_t at = load<uint64_t>(b, end - kLocatorBytes + 8);
      if (at > end - kLocatorBytes || end - kLocatorBytes - at < kEnd64Bytes ||
          load<uint32_t>(b, at) != kEnd64Signature)
        return bad("its zip64 record is damaged");
      count = load<uint64_t>(b, at + 32);
      size = load<uint64_t>(b, at + 40);
      offset = load<uint64_t>(b, at + 48);
      directoryEnd = at;
    }
    if (offset > directoryEnd || size != directoryEnd - offset || count > size / kCentralBytes)
      return bad("its directory lies outside the file");
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    uint64_t at = offset;
    for (uint64_t i = 0; i < count; ++i) OPC_RETURN_IF_ERROR(readMember(&at, offset, directoryEnd, &ranges));
    if (at != directoryEnd) return bad("its directory has bytes that belong to no member");
    std::sort(ranges.begin(), ranges.end());
    for (size_t i = 1; i < ranges.size(); ++i)
      if (ranges[i].first < ranges[i - 1].second) return bad("members overlap: a zip bomb or damage");
    return Status::ok();
  }

  Status readMember(uint64_t *at, uint64_t directory, uint64_t directoryEnd,
                    std::vector<std::pair<uint64_t, uint64_t>> *ranges) {
    const std::string_view b = file_.view();
    if (directoryEnd - *at < kCentralBytes || load<uint32_t>(b, *at) != kCentralSignature)
      return bad("its directory is damaged");
    const uint16_t flags = load<uint16_t>(b, *at + 8), nameBytes = load<uint16_t>(b, *at + 28),
                   extraBytes = load<uint16_t>(b, *at + 30), commentBytes = load<uint16_t>(b, *at + 32);
    Member m;
    m.method = load<uint16_t>(b, *at + 10);
    m.crc = load<uint32_t>(b, *at + 16);
    m.packed = load<uint32_t>(b, *at + 20);
    m.size = load<uint32_t>(b, *at + 24);
    m.header = load<uint32_t>(b, *at + 42);
    const uint64_t bytes = kCentralBytes + uint64_t{nameBytes} + extraBytes + commentBytes;
    if (directoryEnd - *at < bytes) return bad("its directory is damaged");
    const std::string name(b.substr(*at + kCentralBytes, nameBytes));
    OPC_RETURN_IF_ERROR(readZip64(b.substr(*at + kCentralBytes + nameBytes, extraBytes), name, &m));
    *at += bytes;
    if (flags & 1) return bad("member '" + name + "' is encrypted");
    if (m.method != 0 && m.method != 8)
      return bad("member '" + name + "' uses compression method " + std::to_string(m.method) +
                 "; opc reads stored and deflated ones");
    if (m.method == 0 && m.packed != m.size) return bad("member '" + name + "' is stored with two sizes");
    if (m.header > directory || directory - m.header < kLocalBytes || load<uint32_t>(b, m.header) != kLocalSignature)
      return bad("member '" + name + "' has no local header");
    // The local header may leave sizes to a data descriptor; the directory has them, so only name and extent count.
    const uint64_t localName = load<uint16_t>(b, m.header + 26), localExtra = load<uint16_t>(b, m.header + 28);
    m.data = m.header + kLocalBytes + localName + localExtra;
    if (m.data > directory || directory - m.data < m.packed) return bad("member '" + name + "' lies outside the file");
    if (b.substr(m.header + kLocalBytes, localName) != name)
      return bad("member '" + name + "' has another name in its local header");
    ranges->push_back({m.header, m.data + m.packed});
    if (name.size() < 4 || name.compare(name.size() - 4, 4, ".npy") != 0) return Status::ok(); // not a tensor
    std::string key = printableName(name.substr(0, name.size() - 4));
    if (!index_.emplace(key, members_.size()).second)
      return Status(StatusCode::kInvalidGraph, "OPC0710", path_ + ": two members named '" + name + "'");
    members_.push_back(m);
    entries_.push_back({std::move(key), kInvalidDataType, {}});
    return Status::ok();
  }

  Status readZip64(std::string_view extra, const std::string &name, Member *m) const {
    const bool size = m->size == 0xffffffffu, packed = m->packed == 0xffffffffu, header = m->header == 0xffffffffu;
    if (!size && !packed && !header) return Status::ok();
    for (size_t at = 0; at + 4 <= extra.size();) {
      const uint16_t id = load<uint16_t>(extra, at), bytes = load<uint16_t>(extra, at + 2);
      at += 4;
      if (extra.size() - at < bytes) break;
      if (id == 1) {
        if (bytes < 8u * (size + packed + header)) break;
        uint64_t p = at;
        if (size) m->size = load<uint64_t>(extra, p), p += 8;
        if (packed) m->packed = load<uint64_t>(extra, p), p += 8;
        if (header) m->header = load<uint64_t>(extra, p);
        return Status::ok();
      }
      at += bytes;
    }
    return bad("member '" + name + "' lacks its zip64 sizes");
  }

  FileBytes file_;
  std::vector<TensorEntry> entries_;
  std::vector<Member> members_;
  std::unordered_map<std::string, size_t> index_;
};

} // namespace

Result<std::unique_ptr<TensorArchive>> openNpzBytes(FileBytes file, const std::string &path) {
  auto archive = std::make_unique<NpzArchive>();
  OPC_RETURN_IF_ERROR(archive->open(std::move(file), path));
  return std::unique_ptr<TensorArchive>(std::move(archive));
}

namespace {

/// What a member's local header and its entry in the directory say.
struct MemberHeader {
  std::string name;
  uint32_t crc = 0;
  uint64_t size = 0, at = 0;
  bool isBig() const { return size >= 0xffffffffu; }
  bool isFar() const { return at >= 0xffffffffu; }
  uint16_t version() const { return isBig() || isFar() ? 45 : 20; }

  void appendLocal(std::string *s) const {
    append<uint32_t>(s, kLocalSignature);
    appendCommon(s);
    const std::string field = zip64(false);
    append<uint16_t>(s, static_cast<uint16_t>(field.size()));
    *s += name + field;
  }
  void appendEntry(std::string *s) const {
    append<uint32_t>(s, kCentralSignature);
    append<uint16_t>(s, version());
    appendCommon(s);
    const std::string field = zip64(true);
    append<uint16_t>(s, static_cast<uint16_t>(field.size()));
    append<uint16_t>(s, 0); // comment
    append<uint16_t>(s, 0); // disk
    append<uint16_t>(s, 0);
    append<uint32_t>(s, 0);
    append<uint32_t>(s, isFar() ? 0xffffffffu : static_cast<uint32_t>(at));
    *s += name + field;
  }

private:
  void appendCommon(std::string *s) const { // dated 1980-01-01 00:00
    append<uint16_t>(s, version());
    append<uint16_t>(s, 0x0800); // names are UTF-8
    append<uint16_t>(s, 0);
    append<uint16_t>(s, 0);
    append<uint16_t>(s, 0x0021);
    append<uint32_t>(s, crc);
    append<uint32_t>(s, isBig() ? 0xffffffffu : static_cast<uint32_t>(size));
    append<uint32_t>(s, isBig() ? 0xffffffffu : static_cast<uint32_t>(size));
    append<uint16_t>(s, static_cast<uint16_t>(name.size()));
  }
  /// The extra field with what 32 bits do not hold; empty when they hold all.
  std::string zip64(bool withPlace) const {
    std::string contents, field;
    if (isBig()) append<uint64_t>(&contents, size), append<uint64_t>(&contents, size);
    if (withPlace && isFar()) append<uint64_t>(&contents, at);
    if (contents.empty()) return field;
    append<uint16_t>(&field, 1);
    append<uint16_t>(&field, static_cast<uint16_t>(contents.size()));
    return field + contents;
  }
};

/// The end of an archive whose directory of `size` bytes and `count` entries begins at `at`.
void appendEnd(std::string *directory, uint64_t count, uint64_t size, uint64_t at) {
  if (at >= 0xffffffffu || count >= 0xffff || size >= 0xffffffffu) {
    append<uint32_t>(directory, kEnd64Signature);
    append<uint64_t>(directory, kEnd64Bytes - 12);
    append<uint16_t>(directory, 45);
    append<uint16_t>(directory, 45);
    append<uint32_t>(directory, 0);
    append<uint32_t>(directory, 0);
    append<uint64_t>(directory, count);
    append<uint64_t>(directory, count);
    append<uint64_t>(directory, size);
    append<uint64_t>(directory, at);
    append<uint32_t>(directory, kLocator64Signature);
    append<uint32_t>(directory, 0);
    append<uint64_t>(directory, at + size);
    append<uint32_t>(directory, 1);
  }
  append<uint32_t>(directory, kEndSignature);
  append<uint32_t>(directory, 0);
  append<uint16_t>(directory, static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff)));
  append<uint16_t>(directory, static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff)));
  append<uint32_t>(directory, static_cast<uint32_t>(std::min<uint64_t>(size, 0xffffffffu)));
  append<uint32_t>(directory, static_cast<uint32_t>(std::min<uint64_t>(at, 0xffffffffu)));
  append<uint16_t>(directory, 0);
}

} // namespace

Status writeNpz(const std::string &path, NamedTensors tensors) {
  OPC_RETURN_IF_ERROR(sortUnique(path, &tensors));
  AtomicFile f;
  OPC_RETURN_IF_ERROR(f.open(path));
  std::string directory;
  uint64_t at = 0;
  for (const auto &[key, tensor] : tensors) {
    MemberHeader member{key + ".npy"};
    if (member.name.size() > 0xffff)
      return Status(StatusCode::kUsage, "OPC0708",
                    path + ": a name of " + std::to_string(member.name.size()) + " bytes");
    const std::string header = npyHeader(tensor->dtype(), tensor->shape());
    member.size = header.size() + tensor->bytes();
    member.crc = crcOf(crcOf(0, header.data(), header.size()), tensor->data(), tensor->bytes());
    member.at = at;
    std::string local;
    member.appendLocal(&local);
    member.appendEntry(&directory);
    OPC_RETURN_IF_ERROR(f.write(local.data(), local.size()));
    OPC_RETURN_IF_ERROR(f.write(header.data(), header.size()));
    OPC_RETURN_IF_ERROR(f.write(tensor->data(), tensor->bytes()));
    at += local.size() + member.size;
  }
  appendEnd(&directory, tensors.size(), directory.size(), at);
  OPC_RETURN_IF_ERROR(f.write(directory.data(), directory.size()));
  return f.commit();
}

} // namespace opc
