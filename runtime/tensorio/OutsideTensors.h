// Tensors that lie elsewhere, on their way into a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"
#include "opc/Tensor.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace opc {

struct OutsideTensor {
  using Sink = std::function<Status(std::string_view)>;
  std::string name;
  user_op::TensorDesc desc;
  std::function<Status(const Sink &)> write; // gives the sink its bytes, in order; errors: the sink's first
};

/// As safetensors, with no tensor in memory. The names are sorted, and there is one of each.
Status writeOutsideTensors(const std::string &path, const std::vector<OutsideTensor> &tensors);

} // namespace opc
