// What is said of a model (ONNX) beside its bytes, before it can become a graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"
#include "opc/Tensor.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace opc {

struct ModelRequest {
  /// Numbers for sizes that have names, wherever they occur.
  std::map<std::string, int64_t> dims;
  /// Inputs that become constants, and what gives their bytes.
  std::set<std::string> constants;
  std::function<Result<std::string>(const std::string &input, const user_op::TensorDesc &desc)> constant;
  /// The bytes of an input that decides a shape or a branch, where the caller has them: it becomes a constant, too.
  std::function<std::optional<std::string>(const std::string &input, const user_op::TensorDesc &desc)> decide;
  /// Shapes of values by name: of "x.0", "x.1" where input x is a sequence, of "x" where it is an optional.
  std::map<std::string, std::vector<int64_t>> elements;
  /// Of a model that is no file of a folder: what its folder has where the model says that its tensors lie.
  std::function<Result<std::shared_ptr<const std::string>>(const std::string &location)> beside;
};

} // namespace opc
