// A tensor in memory that others own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Tensor.h"

#include <memory>
#include <string_view>

namespace opc {

struct StoredTensor {
  user_op::TensorDesc desc;
  std::string_view bytes; // little endian, row major
  std::shared_ptr<const void> owner;
};

} // namespace opc
