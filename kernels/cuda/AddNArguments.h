// What the device code of add_n, add_n_f32 and so on, is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::cuda {

struct AddNArguments {
  static constexpr int kInputs = 128;
  int64_t n;
  void *out;
  int32_t count, isAligned; // isAligned: all pointers to 16 bytes
  const void *in[kInputs];
};

} // namespace opc::cuda
