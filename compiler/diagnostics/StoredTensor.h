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
  bool isMapped = false; // the bytes lie in a file that is mapped: letGo() costs nothing but reading it again
};

/// The pages of the tensor's bytes need not stay in memory. Nothing where they are not those of a file.
void letGo(const StoredTensor &tensor);

} // namespace opc
