// The elements of a tensor of an ONNX model.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxTensorData.h"
#include "OpInstance.h"
#include "PrintableText.h"

#include "opc/PackedElements.h"

#include <algorithm>
#include <cstring>

namespace opc::onnx {
namespace {

Status invalid(const Tensor &tensor, const std::string &why) {
  return Status(StatusCode::kInvalidGraph, "OPC0322", "tensor '" + printableName(tensor.name()) + "': " + why);
}

/// Elements from a list of wider numbers; what does not fit the element type is damage.
template <class T, class List> Status fill(const Tensor &tensor, const List &list, std::vector<char> *bytes) {
  const size_t count = bytes->size() / sizeof(T);
  if (static_cast<size_t>(list.size()) != count)
    return invalid(tensor,
                   "it holds " + std::to_string(list.size()) + " values, its shape has " + std::to_string(count));
  for (int k = 0; k < list.size(); ++k) {
    const T value = static_cast<T>(list.Get(k));
    if (static_cast<decltype(list.Get(k))>(value) != list.Get(k) && list.Get(k) == list.Get(k))
      return invalid(tensor, "value " + std::to_string(k) + " does not fit its element type");
    std::memcpy(bytes->data() + static_cast<size_t>(k) * sizeof(T), &value, sizeof(T));
  }
  return Status::ok();
}

Status fillTyped(const Tensor &tensor, DataType type, std::vector<char> *bytes) {
  switch (type) {
  case kFloat: return fill<float>(tensor, tensor.float_data(), bytes);
  case kDouble: return fill<double>(tensor, tensor.double_data(), bytes);
  case kInt64: return fill<int64_t>(tensor, tensor.int64_data(), bytes);
  case kUInt64: return fill<uint64_t>(tensor, tensor.uint64_data(), bytes);
  case kUInt32: return fill<uint32_t>(tensor, tensor.uint64_data(), bytes);
  case kInt32: return fill<int32_t>(tensor, tensor.int32_data(), bytes);
  case kInt16: return fill<int16_t>(tensor, tensor.int32_data(), bytes);
  case kInt8: return fill<int8_t>(tensor, tensor.int32_data(), bytes);
  default: break;
  }
  // The bits of floats that C++ lacks, bool, and the narrower unsigned types.
  return GetSizeOfDataType(type) == 1 ? fill<uint8_t>(tensor, tensor.int32_data(), bytes)
                                      : fill<uint16_t>(tensor, tensor.int32_data(), bytes);
}

DataType typeOf(const Tensor &tensor) {
  for (DataType known : dataTypes<types::All>())
    if (elementType(known).onnx == tensor.data_type() && tensor.data_type() != 0) return known;
  return kInvalidDataType;
}

Result<user_op::TensorDesc> descOf(const Tensor &tensor) {
  const DataType type = typeOf(tensor);
  if (type == kInvalidDataType) {
    const std::string number = std::to_string(tensor.data_type());
    if (!tensor.has_data_type() || tensor.data_type() == 0) return invalid(tensor, "it names no element type");
    return Status(StatusCode::kUnsupported, "OPC0422",
                  "tensor '" + printableName(tensor.name()) + "': " +
                      (tensor.data_type() == 8 ? "strings are no numbers that opc computes with"
                                               : "ONNX's element type " + number + " is none of opc's"));
  }
  if (tensor.dims_size() > kMaxRank) return invalid(tensor, std::to_string(tensor.dims_size()) + " dimensions");
  DimVector dims;
  for (int64_t d : tensor.dims()) {
    if (d < 0) return invalid(tensor, "a dimension of " + std::to_string(d));
    dims.push_back(d);
  }
  user_op::TensorDesc desc(Shape(dims), type);
  OPC_ASSIGN_OR_RETURN(const int64_t bytes, tensorBytes(desc));
  (void)bytes;
  return desc;
}

/// In the file, or in memory of its own: the messages go when the graph has been made.
Result<StoredTensor> rawTensor(const Tensor &tensor, const user_op::TensorDesc &desc, size_t size,
                               const ParsedModel *model) {
  const std::string_view raw = model ? model->rawData(tensor) : std::string_view(tensor.raw_data());
  if (raw.size() != size)
    return invalid(tensor, "it holds " + std::to_string(raw.size()) + " bytes, " + desc.toString() + " has " +
                               std::to_string(size));
  const bool isInFile = !raw.empty() && raw.data() != tensor.raw_data().data();
  if (isInFile && desc.data_type() != kBool)
    return StoredTensor{desc, raw, model->file().owner(), model->file().isMapped()};
  auto own = std::make_shared<std::string>(raw);
  if (desc.data_type() == kBool)
    for (char &b : *own) b = b != 0;
  return StoredTensor{desc, *own, own};
}

/// A byte for each of the packed elements; of whole numbers as u8 or i8.
Result<StoredTensor> unpacked(const Tensor &tensor, const user_op::TensorDesc &desc, const ParsedModel *model,
                              ExternalFiles *files) {
  const auto count = static_cast<size_t>(desc.shape().elem_cnt());
  const auto bytes = static_cast<int64_t>(packedBytes(desc.data_type(), count));
  const user_op::TensorDesc packed(Shape({bytes}), kUInt8);
  StoredTensor found;
  if (tensor.data_location() == 1) {
    OPC_ASSIGN_OR_RETURN(found, files->read(tensor, packed));
  } else if (tensor.has_raw_data()) {
    OPC_ASSIGN_OR_RETURN(found, rawTensor(tensor, packed, static_cast<size_t>(bytes), model));
  } else {
    if (tensor.int32_data_size() != bytes)
      return invalid(tensor, "it holds " + std::to_string(tensor.int32_data_size()) + " values, its shape has " +
                                 std::to_string(bytes) + ", each with " +
                                 std::to_string(8 / elementType(desc.data_type()).bits) + " elements");
    auto list = std::make_shared<std::vector<char>>(static_cast<size_t>(bytes));
    OPC_RETURN_IF_ERROR(fill<uint8_t>(tensor, tensor.int32_data(), list.get()));
    found = {packed, {list->data(), list->size()}, list};
  }
  auto wide = std::make_shared<std::vector<char>>(count);
  unpackElements(desc.data_type(), {found.bytes.data(), found.bytes.size()}, wide->data(), count);
  const bool isWhole = narrowType(tensor) != kInvalidDataType, isSigned = elementType(desc.data_type()).isSigned;
  const DataType type = !isWhole ? desc.data_type() : isSigned ? kInt8 : kUInt8;
  return StoredTensor{{desc.shape(), type}, {wide->data(), wide->size()}, wide};
}

} // namespace

DataType narrowType(const Tensor &tensor) {
  const DataType type = typeOf(tensor);
  return isNarrowIntegerType(type) ? type : kInvalidDataType;
}

Result<StoredTensor> tensorOf(const Tensor &tensor, const ParsedModel *model, ExternalFiles *files) {
  Result<user_op::TensorDesc> desc = descOf(tensor);
  if (!desc) {
    if (desc.status().id() == "OPC0422" || desc.status().id() == "OPC0322") return desc.status();
    return invalid(tensor, desc.status().message());
  }
  if (tensor.has_segment()) return invalid(tensor, "it is a segment of a larger tensor");
  if (isPackedInFiles(desc->data_type())) {
    // What is announced must be there before memory is taken for it.
    const auto most = static_cast<uint64_t>(desc->shape().elem_cnt());
    if (tensor.data_location() != 1 && !tensor.has_raw_data() && most / 4 > tensor.ByteSizeLong())
      return invalid(tensor, "it is announced as " + desc->toString() + ", and has not as many values");
    return unpacked(tensor, *desc, model, files);
  }
  if (tensor.data_location() == 1) return files->read(tensor, *desc);
  OPC_ASSIGN_OR_RETURN(const int64_t size, tensorBytes(*desc));
  if (tensor.has_raw_data()) return rawTensor(tensor, *desc, static_cast<size_t>(size), model);
  // What is announced must be there before memory is taken for it: an element of a list has at least a byte.
  if (static_cast<uint64_t>(size) / GetSizeOfDataType(desc->data_type()) > tensor.ByteSizeLong())
    return invalid(tensor, "it is announced as " + desc->toString() + ", and has not as many values");
  auto bytes = std::make_shared<std::vector<char>>(static_cast<size_t>(size));
  OPC_RETURN_IF_ERROR(fillTyped(tensor, desc->data_type(), bytes.get()));
  return StoredTensor{*desc, {bytes->data(), bytes->size()}, bytes};
}

namespace {

/// Sparse tensors are written out up to 1 MiB, or up to this many times what they hold.
constexpr int64_t kMostSparse = 64;

/// Where element `k` of a sparse tensor stands among all, from its row of indices; -1 where that is outside.
int64_t placeOf(const int64_t *row, int64_t columns, const Shape &shape) {
  if (columns == 1 && shape.NumAxes() != 1) return row[0] < 0 || row[0] >= shape.elem_cnt() ? -1 : row[0];
  int64_t place = 0;
  for (int64_t axis = 0; axis < columns; ++axis) {
    if (row[axis] < 0 || row[axis] >= shape.At(axis)) return -1;
    place = place * shape.At(axis) + row[axis];
  }
  return place;
}

} // namespace

Result<StoredTensor> denseOf(const SparseTensor &sparse, const ParsedModel &model, ExternalFiles *files) {
  const Tensor &named = sparse.values();
  OPC_ASSIGN_OR_RETURN(const StoredTensor values, tensorOf(named, &model, files));
  OPC_ASSIGN_OR_RETURN(const StoredTensor indices, tensorOf(sparse.indices(), &model, files));
  const Shape &given = indices.desc.shape();
  const int64_t count = values.desc.shape().elem_cnt(), rank = sparse.dims_size();
  const int64_t columns = given.NumAxes() == 2 ? given.At(1) : 1;
  if (isPackedInFiles(typeOf(named))) return invalid(named, "a sparse tensor of 2- or 4-bit elements");
  if (rank > kMaxRank) return invalid(named, std::to_string(rank) + " dimensions");
  const user_op::TensorDesc desc(Shape(DimVector(sparse.dims().begin(), sparse.dims().end())), values.desc.data_type());
  for (int64_t d : sparse.dims())
    if (d < 0) return invalid(named, "a dimension of " + std::to_string(d));
  const Result<int64_t> size = tensorBytes(desc);
  if (!size) return invalid(named, size.status().message());
  const auto held = static_cast<int64_t>(values.bytes.size() + indices.bytes.size());
  if (values.desc.shape().NumAxes() != 1 || indices.desc.data_type() != kInt64 || given.NumAxes() < 1 ||
      given.NumAxes() > 2 || given.At(0) != count || (given.NumAxes() == 2 && columns != rank))
    return invalid(named, "its values are " + values.desc.toString() + " and its indices " + indices.desc.toString() +
                              ", for " + desc.toString());
  if (*size > std::max<int64_t>(1 << 20, held * kMostSparse))
    return Status(StatusCode::kUnsupported, "OPC0422",
                  "tensor '" + printableName(named.name()) + "': " + desc.toString() + " with " +
                      std::to_string(count) + " elements, and opc writes sparse tensors out");
  auto all = std::make_shared<std::vector<char>>(static_cast<size_t>(*size));
  const size_t each = GetSizeOfDataType(desc.data_type());
  std::vector<int64_t> row(static_cast<size_t>(columns));
  for (int64_t k = 0, last = -1; k < count; ++k) {
    std::memcpy(row.data(), indices.bytes.data() + static_cast<size_t>(k * columns) * sizeof(int64_t),
                row.size() * sizeof(int64_t));
    const int64_t place = placeOf(row.data(), columns, desc.shape());
    if (place <= last)
      return invalid(named,
                     "element " + std::to_string(k) +
                         (place < 0 ? " has no place in " + desc.toString() : " stands not behind the one before"));
    std::memcpy(all->data() + static_cast<size_t>(place) * each, values.bytes.data() + static_cast<size_t>(k) * each,
                each);
    last = place;
  }
  return StoredTensor{desc, {all->data(), all->size()}, all};
}

} // namespace opc::onnx
