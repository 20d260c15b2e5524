// The npy format: header parser, readers for both orders and byte orders, writer.
// SPDX-License-Identifier: Apache-2.0
#include "TensorIo.h"

#include "FileBytes.h"
#include "TensorFormat.h"

#include <cstring>

namespace opc {
namespace {

constexpr char kNpyMagic[] = "\x93NUMPY";
constexpr size_t kMaxHeader = 1 << 16; // numpy's own reader stops at 10,000

struct NpyHeader {
  DataType type = kInvalidDataType;
  bool swapBytes = false, fortranOrder = false;
  Shape shape;
};

Status badHeader(const std::string &what, const std::string &why) {
  return Status(StatusCode::kInvalidGraph, "OPC0701", what + ": bad npy header: " + why);
}

/// What numpy's void type `code` may be: it writes types that it does not know under their size alone.
std::string voidHelp(const std::string &code) {
  std::string names;
  for (DataType type : dataTypes<types::All>())
    if (code == elementType(type).npyCode) names += (names.empty() ? "" : " or ") + std::string(dataTypeName(type));
  if (names.empty()) return "opc has " + elementTypeNames();
  return "it may be " + names + ": it is taken as such where the graph says " + names;
}

/// A reader for the one Python literal that an npy header is: a dict with str keys.
class HeaderParser {
public:
  HeaderParser(std::string_view text, const std::string &what) : s_(text), what_(what) {}

  Status parse(const TensorReadOptions &options, NpyHeader *out) {
    bool descr = false, order = false, shape = false;
    if (!take('{')) return expected("'{'");
    while (!take('}')) {
      std::string key;
      if (!string(&key)) return expected("a quoted key");
      if (!take(':')) return expected("':'");
      if (key == "descr" && !descr) {
        descr = true;
        OPC_RETURN_IF_ERROR(parseDescr(options, out));
      } else if (key == "fortran_order" && !order) {
        order = true;
        if (word("True"))
          out->fortranOrder = true;
        else if (!word("False"))
          return expected("True or False");
      } else if (key == "shape" && !shape) {
        shape = true;
        OPC_RETURN_IF_ERROR(parseShape(out));
      } else {
        return badHeader(what_, "unexpected or repeated key '" + key + "'");
      }
      if (!take(',') && peek() != '}') return expected("',' or '}'");
    }
    skip();
    if (at_ != s_.size()) return badHeader(what_, "text after the closing brace");
    if (!descr || !order || !shape)
      return badHeader(what_, std::string("'") +
                                  (!descr   ? "descr"
                                   : !order ? "fortran_order"
                                            : "shape") +
                                  "' is missing");
    return Status::ok();
  }

private:
  Status parseDescr(const TensorReadOptions &options, NpyHeader *out) {
    std::string d;
    if (!string(&d))
      return Status(StatusCode::kUnsupported, "OPC0709",
                    what_ + ": a structured element type; opc reads plain numbers only")
          .withHelp("save each field as an array of its own");
    const char order = d.empty() ? '\0' : d[0];
    if (order == '<' || order == '>' || order == '|' || order == '=') {
      const std::string name = d.substr(1);
      for (DataType type : dataTypes<types::All>()) {
        const bool wide = GetSizeOfDataType(type) > 1, isVoid = name[0] == 'V';
        if (name != elementType(type).npyCode || (isVoid && type != options.voidType)) continue;
        if (wide && order == '|' && !isVoid) break;
        out->type = type;
        out->swapBytes = wide && order == '>';
        return Status::ok();
      }
    }
    return Status(StatusCode::kUnsupported, "OPC0709", what_ + ": element type '" + d + "' has no counterpart in opc")
        .withHelp(d.size() > 1 && d[1] == 'V' ? voidHelp(d.substr(1)) : "opc has " + elementTypeNames());
  }

  Status parseShape(NpyHeader *out) {
    if (!take('(')) return expected("a tuple");
    DimVector dims;
    while (!take(')')) {
      skip();
      if (at_ < s_.size() && s_[at_] == '-') return badHeader(what_, "a negative dimension");
      int64_t v = 0;
      const size_t begin = at_;
      for (; at_ < s_.size() && s_[at_] >= '0' && s_[at_] <= '9'; ++at_)
        if (__builtin_mul_overflow(v, int64_t{10}, &v) ||
            __builtin_add_overflow(v, static_cast<int64_t>(s_[at_] - '0'), &v))
          return badHeader(what_, "a dimension over 2^63");
      if (at_ == begin) return expected("a dimension");
      if (at_ < s_.size() && s_[at_] == 'L') ++at_; // Python 2 wrote longs so
      dims.push_back(v);
      if (dims.size() > static_cast<size_t>(kMaxRank)) return badHeader(what_, "rank over " + std::to_string(kMaxRank));
      if (!take(',') && peek() != ')') return expected("',' or ')'");
    }
    out->shape = Shape(std::move(dims));
    return Status::ok();
  }

  Status expected(const char *thing) {
    return badHeader(what_,
                     std::string("expected ") + thing + " at byte " + std::to_string(at_) + " of the dictionary");
  }
  void skip() {
    while (at_ < s_.size() && (s_[at_] == ' ' || s_[at_] == '\n' || s_[at_] == '\t' || s_[at_] == '\r')) ++at_;
  }
  char peek() {
    skip();
    return at_ < s_.size() ? s_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c || at_ >= s_.size()) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view w) {
    skip();
    if (s_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  bool string(std::string *out) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = s_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return false;
    *out = std::string(s_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return true;
  }

  std::string_view s_;
  const std::string &what_;
  size_t at_ = 0;
};

template <class T> T swapped(T v) {
  if constexpr (sizeof(T) == 2)
    return static_cast<T>(__builtin_bswap16(v));
  else if constexpr (sizeof(T) == 4)
    return __builtin_bswap32(v);
  else if constexpr (sizeof(T) == 8)
    return __builtin_bswap64(v);
  else
    return v;
}

template <class T> void copyElements(const NpyHeader &h, const char *from, int64_t count, void *to) {
  T *out = static_cast<T *>(to);
  auto load = [&](int64_t i) {
    T v;
    std::memcpy(&v, from + static_cast<size_t>(i) * sizeof(T), sizeof(T)); // files align nothing
    return h.swapBytes ? swapped(v) : v;
  };
  const int64_t rank = h.shape.NumAxes();
  if (!h.fortranOrder || rank < 2) {
    for (int64_t i = 0; i < count; ++i) out[i] = load(i);
    return;
  }
  // Walks the output in order; the first dimension is the one that runs fastest in the file.
  DimVector stride(static_cast<size_t>(rank)), index(static_cast<size_t>(rank), 0);
  int64_t s = 1;
  for (int64_t d = 0; d < rank; ++d) {
    stride[static_cast<size_t>(d)] = s;
    s *= h.shape.At(d);
  }
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = load(offset);
    for (size_t d = static_cast<size_t>(rank); d-- > 0;) {
      offset += stride[d];
      if (++index[d] < h.shape.dim_vec()[d]) break;
      offset -= stride[d] * h.shape.dim_vec()[d];
      index[d] = 0;
    }
  }
}

/// With the byte order that numpy itself writes: none for types of one byte and for those that it does not know.
std::string npyDescr(DataType type) {
  const std::string code = elementType(type).npyCode;
  return (code[0] == 'V' || GetSizeOfDataType(type) == 1 ? "|" : "<") + code;
}

} // namespace

void normalize(HostTensor *t) {
  // A bool that is neither 0 nor 1 would be undefined behaviour in every kernel.
  if (isLoose(t->dtype())) normalizeElements(t->dtype(), t->as<char>(), t->bytes());
}

namespace {

Status truncated(const std::string &what, const std::string &where) {
  return Status(StatusCode::kInvalidGraph, "OPC0702", what + ": truncated " + where);
}

/// The checked header, where the elements begin, and how many bytes of them there are.
Status parseHead(std::string_view bytes, const std::string &what, const TensorReadOptions &options, NpyHeader *h,
                 size_t *begin, int64_t *size) {
  if (bytes.size() < 6 || bytes.substr(0, 6) != std::string_view(kNpyMagic, 6))
    return Status(StatusCode::kInvalidGraph, "OPC0701",
                  what + ": not an npy file: " + (bytes.empty() ? "it is empty" : "it does not begin with \\x93NUMPY"));
  if (bytes.size() < 10) return truncated(what, "in the npy header");
  const uint8_t major = static_cast<uint8_t>(bytes[6]), minor = static_cast<uint8_t>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0)
    return badHeader(what,
                     "version " + std::to_string(major) + "." + std::to_string(minor) + "; opc reads 1.0, 2.0 and 3.0");
  const size_t lengthBytes = major == 1 ? 2 : 4;
  if (bytes.size() < 8 + lengthBytes) return truncated(what, "in the npy header");
  size_t length = 0;
  for (size_t i = 0; i < lengthBytes; ++i) length |= static_cast<size_t>(static_cast<uint8_t>(bytes[8 + i])) << (8 * i);
  if (length > kMaxHeader) return badHeader(what, "it announces " + std::to_string(length) + " bytes");
  *begin = 8 + lengthBytes + length;
  if (bytes.size() < *begin) return truncated(what, "in the npy header");
  OPC_RETURN_IF_ERROR(HeaderParser(bytes.substr(8 + lengthBytes, length), what).parse(options, h));
  OPC_ASSIGN_OR_RETURN(*size, checkedTensorBytes(h->type, h->shape, what, options));
  return Status::ok();
}

/// Splits a file into its checked header and as many bytes of data as the header announces.
Status parseNpy(std::string_view bytes, const std::string &what, const TensorReadOptions &options, NpyHeader *h,
                std::string_view *data) {
  size_t begin = 0;
  int64_t size = 0;
  OPC_RETURN_IF_ERROR(parseHead(bytes, what, options, h, &begin, &size));
  *data = bytes.substr(begin);
  NpyLayout layout;
  layout.desc = user_op::TensorDesc(h->shape, h->type);
  layout.bytes = static_cast<uint64_t>(size);
  return checkNpySize(layout, data->size(), what);
}

/// Whether the elements lie in the file as they lie in memory.
bool isPlain(const NpyHeader &h) { return !h.swapBytes && (!h.fortranOrder || h.shape.NumAxes() < 2); }

} // namespace

Status checkNpySize(const NpyLayout &layout, uint64_t dataBytes, const std::string &what) {
  if (dataBytes == layout.bytes) return Status::ok();
  const std::string found =
      std::to_string(dataBytes) + " bytes of data, " + layout.desc.toString() + " has " + std::to_string(layout.bytes);
  if (dataBytes < layout.bytes) return truncated(what, ": " + found);
  return Status(StatusCode::kInvalidGraph, "OPC0702", what + ": bytes after the data: " + found);
}

Result<NpyLayout> npyLayout(std::string_view head, const std::string &what, const TensorReadOptions &options) {
  NpyHeader h;
  NpyLayout layout;
  int64_t size = 0;
  OPC_RETURN_IF_ERROR(parseHead(head, what, options, &h, &layout.begin, &size));
  layout.desc = user_op::TensorDesc(h.shape, h.type);
  layout.bytes = static_cast<uint64_t>(size);
  layout.isPlain = isPlain(h) && !isLoose(h.type); // those are checked while they are copied
  return layout;
}

Result<std::optional<NpyView>> viewNpy(std::string_view bytes, const std::string &what,
                                       const TensorReadOptions &options) {
  NpyHeader h;
  std::string_view data;
  OPC_RETURN_IF_ERROR(parseNpy(bytes, what, options, &h, &data));
  if (!isPlain(h) || isLoose(h.type)) return std::optional<NpyView>(); // those are checked while they are copied
  return std::optional<NpyView>({user_op::TensorDesc(h.shape, h.type), data.data()});
}

Result<HostTensor> decodeNpy(std::string_view bytes, const std::string &what, const TensorReadOptions &options) {
  NpyHeader h;
  std::string_view data;
  OPC_RETURN_IF_ERROR(parseNpy(bytes, what, options, &h, &data));
  Result<HostTensor> t = roomFor(h.type, h.shape, what);
  if (!t) return t;
  if (t->bytes() == 0) {
  } else if (isPlain(h))
    std::memcpy(t->data(), data.data(), data.size());
  else
    switch (GetSizeOfDataType(h.type)) {
    case 1: copyElements<uint8_t>(h, data.data(), t->elemCount(), t->data()); break;
    case 2: copyElements<uint16_t>(h, data.data(), t->elemCount(), t->data()); break;
    case 4: copyElements<uint32_t>(h, data.data(), t->elemCount(), t->data()); break;
    default: copyElements<uint64_t>(h, data.data(), t->elemCount(), t->data()); break;
    }
  normalize(&*t);
  return t;
}

Result<HostTensor> readNpy(const std::string &path, const TensorReadOptions &options) {
  OPC_ASSIGN_OR_RETURN(FileBytes file, openTensorBytes(path));
  return decodeNpy(file.view(), path, options);
}

std::string npyHeader(DataType type, const Shape &shape) {
  std::string dict = std::string("{'descr': '") + npyDescr(type) + "', 'fortran_order': False, 'shape': (";
  for (int64_t i = 0; i < shape.NumAxes(); ++i)
    dict += std::to_string(shape.At(i)) + (shape.NumAxes() == 1 ? "," : i + 1 < shape.NumAxes() ? ", " : "");
  dict += "), }";
  const size_t total = (10 + dict.size() + 1 + 63) / 64 * 64; // the data begins at a multiple of 64
  dict.append(total - 10 - dict.size() - 1, ' ');
  dict += '\n';
  std::string header(kNpyMagic, 6);
  header += '\x01';
  header += '\0';
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

std::string encodeNpy(const HostTensor &tensor) {
  std::string bytes = npyHeader(tensor.dtype(), tensor.shape());
  if (tensor.bytes()) bytes.append(tensor.as<char>(), tensor.bytes());
  return bytes;
}

Status writeNpy(const std::string &path, const HostTensor &tensor) {
  if (!tensor.isValid()) return Status(StatusCode::kInternal, "OPC0709", "no tensor to write to " + path);
  AtomicFile f;
  OPC_RETURN_IF_ERROR(f.open(path));
  const std::string header = npyHeader(tensor.dtype(), tensor.shape());
  OPC_RETURN_IF_ERROR(f.write(header.data(), header.size()));
  OPC_RETURN_IF_ERROR(f.write(tensor.data(), tensor.bytes()));
  return f.commit();
}

} // namespace opc
