// The elements of a tensor of an ONNX model.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxTensorData.h"
#include "OnnxTensors.h"
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

Status statusOf(const wire::OnnxFault &fault, const Tensor &tensor) {
  if (!fault.isFault()) return Status::ok();
  if (fault.kind != wire::OnnxFault::Kind::kType) return invalid(tensor, fault.text);
  return Status(StatusCode::kUnsupported, "OPC0422", "tensor '" + printableName(tensor.name()) + "': " + fault.text);
}

} // namespace

DataType narrowType(const Tensor &tensor) {
  const DataType type = wire::fromOnnxType(tensor.data_type());
  return isNarrowIntegerType(type) ? type : kInvalidDataType;
}

Result<StoredTensor> tensorOf(const Tensor &tensor, const ParsedModel &model, ExternalFiles *files) {
  user_op::TensorDesc desc;
  OPC_RETURN_IF_ERROR(statusOf(wire::describeOnnx(tensor, &desc), tensor));
  const DataType type = desc.data_type();
  const Result<int64_t> size = tensorBytes(desc);
  if (!size) return invalid(tensor, size.status().message());
  const bool isPacked = isPackedInFiles(type);
  std::optional<std::string_view> raw;
  StoredTensor found; // where no memory of its own is needed
  if (tensor.data_location() == 1) {
    const auto bytes = static_cast<int64_t>(packedBytes(type, static_cast<size_t>(desc.shape().elem_cnt())));
    OPC_ASSIGN_OR_RETURN(found, files->read(tensor, isPacked ? user_op::TensorDesc(Shape({bytes}), kUInt8) : desc));
    raw = found.bytes;
  } else if (tensor.has_raw_data()) {
    raw = model.rawData(tensor);
    if (raw->data() != tensor.raw_data().data()) found = {desc, *raw, model.file().owner(), model.file().isMapped()};
  }
  OPC_RETURN_IF_ERROR(statusOf(wire::countOnnxElements(tensor, desc, raw), tensor));
  if (!found.bytes.empty() && !isPacked && type != kBool) return found;
  // The messages go when the graph has been made.
  auto own = std::make_shared<std::vector<char>>(static_cast<size_t>(*size));
  OPC_RETURN_IF_ERROR(statusOf(wire::copyOnnxElements(tensor, desc, raw, own->data()), tensor));
  if (isNarrowIntegerType(type)) desc = {desc.shape(), elementType(type).isSigned ? kInt8 : kUInt8};
  return StoredTensor{desc, {own->data(), own->size()}, own};
}

Result<StoredTensor> tensorOf(const Tensor &tensor) {
  ExternalFiles none("");
  return tensorOf(tensor, ParsedModel(), &none);
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
  OPC_ASSIGN_OR_RETURN(const StoredTensor values, tensorOf(named, model, files));
  OPC_ASSIGN_OR_RETURN(const StoredTensor indices, tensorOf(sparse.indices(), model, files));
  const Shape &given = indices.desc.shape();
  const int64_t count = values.desc.shape().elem_cnt(), rank = sparse.dims_size();
  const int64_t columns = given.NumAxes() == 2 ? given.At(1) : 1;
  if (isPackedInFiles(wire::fromOnnxType(named.data_type())))
    return invalid(named, "a sparse tensor of 2- or 4-bit elements");
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
