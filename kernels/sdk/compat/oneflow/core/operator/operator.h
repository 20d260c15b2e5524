// The names that OneFlow gives to the tensors of an argument.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/protobuf.h"

namespace oneflow {

/// "in_0" for ("in", 0), and back.
inline std::string GenRepeatedBn(const std::string &argument, int32_t index) {
  return argument + "_" + std::to_string(index);
}
inline std::pair<std::string, int32_t> GenUnRepeatedBn(const std::string &name) {
  const size_t at = name.rfind('_');
  CHECK(at != std::string::npos && at + 1 < name.size()) << name;
  return {name.substr(0, at), std::stoi(name.substr(at + 1))};
}

} // namespace oneflow
