// ONNX TensorProto files (.pb): one tensor each, as in the test data of ONNX's models.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxTensors.h"
#include "TensorFormat.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

namespace opc {
namespace {

using onnx::Tensor;

Status bad(const std::string &what, const std::string &why, const std::string &help = "") {
  return Status(StatusCode::kInvalidGraph, "OPC0701", what + ": not an ONNX tensor that opc can read: " + why)
      .withHelp(help);
}

Status statusOf(const wire::OnnxFault &fault, const std::string &what, const Tensor &tensor) {
  using Kind = wire::OnnxFault::Kind;
  if (!fault.isFault()) return Status::ok();
  if (fault.kind == Kind::kForm)
    return bad(what, fault.text, tensor.data_type() ? "" : "is it a model? opc reads its tensors alone");
  const char *id = fault.kind == Kind::kType ? "OPC0709" : "OPC0702";
  return Status(StatusCode::kInvalidGraph, id, what + ": " + fault.text);
}

} // namespace

Result<HostTensor> decodeOnnxTensor(std::string_view bytes, const std::string &what, const TensorReadOptions &options) {
  if (bytes.size() > INT32_MAX)
    return Status(StatusCode::kInvalidGraph, "OPC0708", what + ": over 2 GiB, which no protobuf file may be");
  Tensor tensor;
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream input(&stream);
  input.SetRecursionLimit(16);
  if (!tensor.ParseFromCodedStream(&input) || !input.ConsumedEntireMessage())
    return bad(what, "its bytes are no protobuf");
  user_op::TensorDesc desc;
  OPC_RETURN_IF_ERROR(statusOf(wire::describeOnnx(tensor, &desc), what, tensor));
  if (tensor.data_location() != 0 || tensor.external_data_size() > 0)
    return bad(what, "its data is in another file", "opc opens no file that the command line does not name");
  if (auto size = checkedTensorBytes(desc.data_type(), desc.shape(), what, options); !size) return size.status();
  std::optional<std::string_view> raw;
  if (tensor.has_raw_data()) raw = tensor.raw_data();
  OPC_RETURN_IF_ERROR(statusOf(wire::countOnnxElements(tensor, desc, raw), what, tensor));
  OPC_ASSIGN_OR_RETURN(HostTensor t, roomFor(desc.data_type(), desc.shape(), what));
  OPC_RETURN_IF_ERROR(statusOf(wire::copyOnnxElements(tensor, desc, raw, t.as<char>()), what, tensor));
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
      if (field == Tensor::kDimsFieldNumber) dims.push_back(static_cast<int64_t>(value));
      if (field == Tensor::kDataTypeFieldNumber) number = static_cast<int>(value);
      if (field == Tensor::kDataLocationFieldNumber) return std::nullopt;
    } else if ((tag & 7) == 2 && input.ReadVarint32(&length) && length <= INT32_MAX) {
      if (field != Tensor::kDimsFieldNumber) {
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
  if (dims.size() > static_cast<size_t>(kMaxRank)) return std::nullopt;
  for (const int64_t d : dims)
    if (d < 0) return std::nullopt;
  const DataType type = wire::fromOnnxType(number);
  return type == kInvalidDataType ? std::nullopt : std::optional(user_op::TensorDesc(Shape(dims), type));
}

std::string onnxTensorName(std::string_view bytes) {
  using google::protobuf::internal::WireFormatLite;
  if (bytes.size() > INT32_MAX) return "";
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t *>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  const uint32_t wanted = WireFormatLite::MakeTag(Tensor::kNameFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
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
  Tensor message;
  if (!name.empty()) message.set_name(name);
  wire::toOnnx(tensor.desc(), {tensor.as<char>(), tensor.bytes()}, &message);
  return writeFileAtomically(path, message.SerializeAsString());
}

} // namespace opc
