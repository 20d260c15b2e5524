// The elements of a tensor of an ONNX model: in the message, in a list of its own, or in a file beside the model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ModelRequest.h"
#include "OnnxParsedModel.h"
#include "StoredTensor.h"
#include "opc/Status.h"

#include "onnx.pb.h"

#include <map>
#include <memory>
#include <string>

namespace opc::onnx {

/// The files beside a model that hold its tensors. Each is mapped once, read only.
class ExternalFiles {
public:
  using Beside = decltype(ModelRequest::beside);
  /// `model`: the model's path; "" where nothing may be looked at but what `beside` has.
  explicit ExternalFiles(std::string model, Beside beside = nullptr)
      : model_(std::move(model)), beside_(std::move(beside)) {}
  /// The bytes of a file within the model's folder: a regular file that nothing else names, reached by no link. Errors:
  /// OPC0323.
  Result<StoredTensor> read(const Tensor &tensor, const user_op::TensorDesc &desc);

private:
  struct File;
  /// What of a file is taken. A tensor may lie where another one does, and not in a part of it.
  class Ranges {
  public:
    bool take(uint64_t begin, uint64_t end);

  private:
    std::map<uint64_t, uint64_t> taken_;
  };
  Result<std::shared_ptr<const File>> open(const std::string &location);
  std::string model_;
  Beside beside_;
  std::map<std::string, std::shared_ptr<const File>> files_;
  std::map<std::string, Ranges> ranges_;
};

/// The type of whole numbers of 2 or 4 bits, which tensorOf() gives a byte each, as u8 or i8; kInvalidDataType for all
/// others.
DataType narrowType(const Tensor &tensor);

/// A tensor of `model`. What its file has is not copied. Whole numbers of 2 and 4 bits become bytes.
/// Errors: OPC0322, OPC0422 (an element type that opc does not have), OPC0323.
Result<StoredTensor> tensorOf(const Tensor &tensor, const ParsedModel &model, ExternalFiles *files);
/// One of few elements, which are in the message. Errors as above.
Result<StoredTensor> tensorOf(const Tensor &tensor);
/// All elements of a sparse tensor of `model`. Errors: those of tensorOf; OPC0422 where that is far more than it holds.
Result<StoredTensor> denseOf(const SparseTensor &sparse, const ParsedModel &model, ExternalFiles *files);

} // namespace opc::onnx
