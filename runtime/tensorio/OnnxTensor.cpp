// ONNX TensorProto files (.pb): one tensor each, as in the test data of ONNX's models.
// SPDX-License-Identifier: Apache-2.0
#include "TensorFormat.h"

#include "onnx_tensor.pb.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstring>

namespace opc {
namespace {

using File = onnx::TensorFile;

Status bad(const std::string &what, const std::string &why, const std::string &help = "") {
  return Status(StatusCode::kInvalidGraph, "OPC0701", what + ": not an ONNX tensor that opc can read: " + why)
      .withHelp(help);
}

/// Elements from a list of wider numbers; what does not fit the element type is damage.
template <class T, class List> Status fillFrom(const List &list, HostTensor *t, const std::string &what) {
  if (list.size() != t->elemCount())
    return Status(StatusCode::kInvalidGraph, "OPC0702",
                  what + ": holds " + std::to_string(list.size()) + " values, " + t->desc().toString() + " has " +
                      std::to_string(t->elemCount()));
  T *out = t->as<T>();
  for (int i = 0; i < list.size(); ++i) {
    out[i] = static_cast<T>(list.Get(i));
    if (static_cast<decltype(list.Get(i))>(out[i]) != list.Get(i) && list.Get(i) == list.Get(i))
      return Status(StatusCode::kInvalidGraph, "OPC0702",
                    what + ": value " + std::to_string(i) + " does not fit " + dataTypeName(t->dtype()));
  }
  return Status::ok();
}

/// Packed elements, a byte of them in each of ONNX's int32.
Status fillPacked(const File &file, HostTensor *t, const std::string &what) {
  OPC_ASSIGN_OR_RETURN(HostTensor packed, roomFor(kUInt8, Shape({file.int32_data_size()}), what));
  OPC_RETURN_IF_ERROR(fillFrom<uint8_t>(file.int32_data(), &packed, what));
  unpackElements(t->dtype(), {packed.as<char>(), packed.bytes()}, t->as<char>(), t->bytes());
  return Status::ok();
}

/// The list that ONNX keeps a type in: short types as int32, the bits of floats that C++ lacks among them.
Status fillTyped(const File &file, HostTensor *t, const std::string &what) {
  if (isPackedInFiles(t->dtype())) return fillPacked(file, t, what);
  return withElements(*t, [&](auto *elements) {
    using T = std::remove_pointer_t<decltype(elements)>;
    if constexpr (std::is_same_v<T, float>)
      return fillFrom<T>(file.float_data(), t, what);
    else if constexpr (std::is_same_v<T, double>)
      return fillFrom<T>(file.double_data(), t, what);
    else if constexpr (std::is_same_v<T, int64_t>)
      return fillFrom<T>(file.int64_data(), t, what);
    else if constexpr (std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>)
      return fillFrom<T>(file.uint64_data(), t, what);
    else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return fillFrom<T>(file.int32_data(), t, what);
    else
      return fillFrom<std::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>>(file.int32_data(), t, what);
  });
}

} // namespace

Result<HostTensor> decodeOnnxTensor(std::string_view bytes, const std::string &what, const TensorReadOptions &options) {
  if (bytes.size() > INT32_MAX)
    return Status(StatusCode::kInvalidGraph, "OPC0708", what + ": over 2 GiB, which no protobuf file may be");
  File file;
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream input(&stream);
  input.SetRecursionLimit(16);
  if (!file.ParseFromCodedStream(&input) || !input.ConsumedEntireMessage())
    return bad(what, "its bytes are no protobuf");
  if (!file.has_data_type()) return bad(what, "it names no element type", "is it a model? opc reads its tensors alone");
  if (file.data_location() != 0 || file.external_data_size() > 0)
    return bad(what, "its data is in another file", "opc opens no file that the command line does not name");
  if (file.has_segment()) return bad(what, "it is a segment of a larger tensor");
  DataType type = kInvalidDataType;
  for (DataType known : dataTypes<types::All>())
    if (elementType(known).onnx == file.data_type()) type = known;
  if (type == kInvalidDataType)
    return Status(StatusCode::kInvalidGraph, "OPC0709",
                  what + ": ONNX's element type " + std::to_string(file.data_type()) + " is none of opc's");
  if (file.dims_size() > 64) return bad(what, std::to_string(file.dims_size()) + " dimensions");
  DimVector dims;
  for (int64_t d : file.dims()) {
    if (d < 0) return bad(what, "a dimension of " + std::to_string(d));
    dims.push_back(d);
  }
  const Shape shape(dims);
  OPC_ASSIGN_OR_RETURN(const int64_t size, checkedTensorBytes(type, shape, what, options));
  // What is announced must be there before memory is taken for it: every list has at least a byte for each element, or
  // for as many as a byte holds.
  const bool raw = file.has_raw_data(), isPacked = isPackedInFiles(type);
  const auto count = static_cast<size_t>(shape.elem_cnt());
  const size_t inFile = packedBytes(type, count);
  const size_t held = raw                     ? file.raw_data().size()
                      : isPacked              ? static_cast<size_t>(file.int32_data_size())
                      : count <= bytes.size() ? inFile
                                              : bytes.size();
  if (held != inFile)
    return Status(StatusCode::kInvalidGraph, "OPC0702",
                  what + ": holds " + std::to_string(held) + " bytes, " + user_op::TensorDesc(shape, type).toString() +
                      " has " + std::to_string(inFile));
  Result<HostTensor> t = roomFor(type, shape, what);
  if (!t) return t;
  if (raw && isPacked) {
    unpackElements(type, file.raw_data(), t->as<char>(), t->bytes());
  } else if (raw) {
    if (size) std::memcpy(t->data(), file.raw_data().data(), static_cast<size_t>(size));
  } else if (Status s = fillTyped(file, &*t, what); !s.isOk()) {
    return s;
  }
  normalize(&*t);
  return t;
}

std::optional<user_op::TensorDesc> onnxTensorDesc(std::string_view bytes) {
  using google::protobuf::io::CodedInputStream;
  if (bytes.size() > INT32_MAX) return std::nullopt;
  CodedInputStream input(reinterpret_cast<const uint8_t *>(bytes.data()), static_cast<int>(bytes.size()));
  DimVector dims;
  int number = 0; // of the element type
  for (uint32_t tag = input.ReadTag(); tag != 0; tag = input.ReadTag()) {
    const uint32_t field = tag >> 3;
    uint64_t value = 0;
    uint32_t length = 0;
    if ((tag & 7) == 0) {
      if (!input.ReadVarint64(&value)) return std::nullopt;
      if (field == File::kDimsFieldNumber) dims.push_back(static_cast<int64_t>(value));
      if (field == File::kDataTypeFieldNumber) number = static_cast<int>(value);
      if (field == File::kDataLocationFieldNumber) return std::nullopt;
    } else if ((tag & 7) == 2 && input.ReadVarint32(&length) && length <= INT32_MAX) {
      if (field != File::kDimsFieldNumber) {
        if (!input.Skip(static_cast<int>(length))) return std::nullopt;
        continue;
      }
      const auto limit = input.PushLimit(static_cast<int>(length));
      while (input.BytesUntilLimit() > 0) {
        if (!input.ReadVarint64(&value)) return std::nullopt;
        dims.push_back(static_cast<int64_t>(value));
      }
      input.PopLimit(limit);
    } else {
      return std::nullopt;
    }
  }
  if (number == 0 || dims.size() > static_cast<size_t>(kMaxRank)) return std::nullopt;
  for (const int64_t d : dims)
    if (d < 0) return std::nullopt;
  for (const DataType known : dataTypes<types::All>())
    if (elementType(known).onnx == number) return user_op::TensorDesc(Shape(dims), known);
  return std::nullopt;
}

std::string onnxTensorName(std::string_view bytes) {
  using google::protobuf::internal::WireFormatLite;
  if (bytes.size() > INT32_MAX) return "";
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t *>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  const uint32_t wanted = WireFormatLite::MakeTag(File::kNameFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  for (uint32_t tag = input.ReadTag(); tag != 0; tag = input.ReadTag()) {
    std::string name;
    if (tag == wanted) return WireFormatLite::ReadBytes(&input, &name) ? name : "";
    if (!WireFormatLite::SkipField(&input, tag)) return "";
  }
  return "";
}

Status writeOnnxTensor(const std::string &path, const std::string &name, const HostTensor &tensor) {
  // Room for the fields around the data.
  if (tensor.bytes() > static_cast<size_t>(INT32_MAX) - (1 << 20) - name.size())
    return Status(StatusCode::kUsage, "OPC0708",
                  path + ": an ONNX tensor file holds at most 2 GiB; " + tensor.desc().toString() + " has " +
                      std::to_string(tensor.bytes()) + " bytes")
        .withHelp("write .npy or .safetensors");
  File file;
  for (int64_t d : tensor.shape().dim_vec()) file.add_dims(d);
  file.set_data_type(elementType(tensor.dtype()).onnx);
  if (!name.empty()) file.set_name(name);
  const std::string_view elements(tensor.as<char>(), tensor.bytes());
  file.set_raw_data(isPackedInFiles(tensor.dtype()) ? packElements(tensor.dtype(), elements) : std::string(elements));
  return writeFileAtomically(path, file.SerializeAsString());
}

} // namespace opc
