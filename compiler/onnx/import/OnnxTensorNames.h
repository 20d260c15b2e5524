// What the tensors of an ONNX model are called as variables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "onnx.pb.h"

#include <string>
#include <unordered_map>

namespace opc::onnx {

/// A graph within an op may have tensors of its own, by names that others have, too. Those have the names of the nodes
/// around them and of the attribute before their own: "choice/then_branch/w". It does not depend on which of the graphs
/// are converted. A name that one tensor alone has stays as it is.
class TensorNames {
public:
  /// `model` must outlive it.
  explicit TensorNames(const Model &model);
  const std::string &of(const Tensor *tensor, const std::string &own) const {
    const auto longer = longer_.find(tensor);
    return longer == longer_.end() ? own : longer->second;
  }

private:
  std::unordered_map<const Tensor *, std::string> longer_;
};

} // namespace opc::onnx
