// ONNX's tensor messages: what models and tensor files have is read here, and nobody has looked at it before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "onnx_tensor.pb.h"
#include "opc/Tensor.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace opc::wire {

/// opc's element type for ONNX's number; kInvalidDataType where there is none.
DataType fromOnnxType(int64_t number);

/// What is wrong with a tensor, to be said behind its name.
struct OnnxFault {
  /// kForm: it is not as ONNX has tensors. kType: of an element type that opc does not have. kElements: there are
  /// others than its type says.
  enum class Kind { kNone, kForm, kType, kElements } kind = Kind::kNone;
  std::string text = {}; // "it holds 3 values, f32[2] has 2"
  bool isFault() const { return kind != Kind::kNone; }
};

/// Type and shape. How many bytes those are is still to be checked.
OnnxFault describeOnnx(const onnx::Tensor &tensor, user_op::TensorDesc *desc);
/// Whether there are as many elements as `desc` says: before memory is taken for them. `raw`: the bytes, which may lie
/// in a file; none where the message lists the elements.
OnnxFault countOnnxElements(const onnx::Tensor &tensor, const user_op::TensorDesc &desc,
                            const std::optional<std::string_view> &raw);
/// All that countOnnxElements() has counted, in opc's form: a byte for those under a byte, each one that an element may
/// be. A listed number that does not fit its type is a fault.
OnnxFault copyOnnxElements(const onnx::Tensor &tensor, const user_op::TensorDesc &desc,
                           const std::optional<std::string_view> &raw, char *elements);

/// The inverse; `elements` as raw bytes.
void toOnnxType(const user_op::TensorDesc &desc, onnx::Tensor *tensor);
void toOnnx(const user_op::TensorDesc &desc, std::string_view elements, onnx::Tensor *tensor);

} // namespace opc::wire
