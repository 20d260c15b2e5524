// The messages of an ONNX model without the elements of its large tensors, which stay where the file has them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "SharedBytes.h"
#include "StoredTensor.h"

#include "onnx.pb.h"

#include <string_view>
#include <unordered_map>

namespace opc::onnx {

class ParsedModel {
public:
  /// False where the bytes are no complete model, or messages lie in one another too deep.
  bool parse(SharedBytes file);
  const Model &model() const { return model_; }
  const SharedBytes &file() const { return file_; }
  /// The raw data of a tensor of this model: in the file, or in the message itself.
  std::string_view rawData(const Tensor &tensor) const;

private:
  bool merge(google::protobuf::Message *to, std::string_view bytes, int depth);
  bool mergePlain(google::protobuf::Message *to, std::string_view bytes, int depth);

  void letGoUntil(const char *end);

  SharedBytes file_;
  size_t inMemory_ = 0; // of the file's pages, about
  Model model_;
  std::unordered_map<const Tensor *, std::string_view> inFile_;
};

} // namespace opc::onnx
