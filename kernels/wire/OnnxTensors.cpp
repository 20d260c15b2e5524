// ONNX's tensor messages.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxTensors.h"

#include "opc/PackedElements.h"

#include <cstring>
#include <type_traits>

namespace opc::wire {
namespace {

using Kind = OnnxFault::Kind;

constexpr int kOnnxStrings = 8;

/// Calls f with the list that ONNX keeps a type in, and a value of the type that its numbers have in memory: short
/// types are int32 and the bits of floats that C++ lacks, those under a byte int32 with a byte of them in each.
template <class F> auto withList(const onnx::Tensor &tensor, DataType type, F &&f) {
  if (isPackedInFiles(type)) return f(tensor.int32_data(), uint8_t());
  return visit(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, float>)
      return f(tensor.float_data(), T());
    else if constexpr (std::is_same_v<T, double>)
      return f(tensor.double_data(), T());
    else if constexpr (std::is_same_v<T, int64_t>)
      return f(tensor.int64_data(), T());
    else if constexpr (std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>)
      return f(tensor.uint64_data(), T());
    else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return f(tensor.int32_data(), T());
    else
      return f(tensor.int32_data(), std::conditional_t<sizeof(T) == 1, uint8_t, uint16_t>());
  });
}

/// What does not fit the element type is damage.
OnnxFault copyListed(const onnx::Tensor &tensor, DataType type, char *to) {
  return withList(tensor, type, [&](const auto &list, auto element) -> OnnxFault {
    for (int k = 0; k < list.size(); ++k) {
      const auto given = list.Get(k);
      element = static_cast<decltype(element)>(given);
      if (static_cast<decltype(list.Get(k))>(element) != given && given == given)
        return {Kind::kElements, "value " + std::to_string(k) + " does not fit " + dataTypeName(type)};
      std::memcpy(to + static_cast<size_t>(k) * sizeof element, &element, sizeof element);
    }
    return {};
  });
}

} // namespace

DataType fromOnnxType(int64_t number) {
  for (DataType known : dataTypes<types::All>())
    if (elementType(known).onnx == number && number != 0) return known;
  return kInvalidDataType;
}

OnnxFault describeOnnx(const onnx::Tensor &tensor, user_op::TensorDesc *desc) {
  const int number = tensor.data_type();
  if (number == 0) return {Kind::kForm, "it names no element type"};
  if (tensor.has_segment()) return {Kind::kForm, "it is a segment of a larger tensor"};
  const DataType type = fromOnnxType(number);
  if (number == kOnnxStrings) return {Kind::kType, "strings are no numbers that opc computes with"};
  if (type == kInvalidDataType)
    return {Kind::kType, "ONNX's element type " + std::to_string(number) + " is none of opc's"};
  if (tensor.dims_size() > kMaxRank) return {Kind::kForm, std::to_string(tensor.dims_size()) + " dimensions"};
  for (const int64_t d : tensor.dims())
    if (d < 0) return {Kind::kForm, "a dimension of " + std::to_string(d)};
  *desc = {Shape(DimVector(tensor.dims().begin(), tensor.dims().end())), type};
  return {};
}

OnnxFault countOnnxElements(const onnx::Tensor &tensor, const user_op::TensorDesc &desc,
                            const std::optional<std::string_view> &raw) {
  const DataType type = desc.data_type();
  const auto count = static_cast<size_t>(desc.shape().elem_cnt()), bytes = packedBytes(type, count);
  const bool isPacked = isPackedInFiles(type);
  const size_t held =
      raw ? raw->size()
          : withList(tensor, type, [](const auto &list, auto) { return static_cast<size_t>(list.size()); });
  const size_t wanted = raw || isPacked ? bytes : count;
  if (held == wanted) return {};
  std::string text = "it holds " + std::to_string(held) + (raw ? " bytes, " : " values, ") + desc.toString() + " has " +
                     std::to_string(wanted);
  if (!raw && isPacked) text += ", each with " + std::to_string(8 / elementType(type).bits) + " elements";
  return {Kind::kElements, text};
}

OnnxFault copyOnnxElements(const onnx::Tensor &tensor, const user_op::TensorDesc &desc,
                           const std::optional<std::string_view> &raw, char *elements) {
  const DataType type = desc.data_type();
  const auto count = static_cast<size_t>(desc.shape().elem_cnt());
  if (!isPackedInFiles(type)) {
    if (!raw) {
      if (OnnxFault fault = copyListed(tensor, type, elements); fault.isFault()) return fault;
    } else if (!raw->empty()) {
      std::memcpy(elements, raw->data(), raw->size());
    }
    normalizeElements(type, elements, count);
    return {};
  }
  std::string listed(raw ? 0 : packedBytes(type, count), '\0');
  if (OnnxFault fault = raw ? OnnxFault() : copyListed(tensor, type, listed.data()); fault.isFault()) return fault;
  unpackElements(type, raw ? *raw : listed, elements, count);
  return {};
}

void toOnnxType(const user_op::TensorDesc &desc, onnx::Tensor *tensor) {
  for (const int64_t d : desc.shape().dim_vec()) tensor->add_dims(d);
  tensor->set_data_type(elementType(desc.data_type()).onnx);
}

void toOnnx(const user_op::TensorDesc &desc, std::string_view elements, onnx::Tensor *tensor) {
  toOnnxType(desc, tensor);
  tensor->set_raw_data(isPackedInFiles(desc.data_type()) ? packElements(desc.data_type(), elements)
                                                         : std::string(elements));
}

} // namespace opc::wire
