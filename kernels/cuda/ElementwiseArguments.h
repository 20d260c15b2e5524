// What the device code of elementwise ops is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::cuda {

constexpr int kElementwiseInputs = 6, kElementwiseRank = 20;

struct ElementwiseArguments {
  int64_t n; // elements of the output
  const void *in[kElementwiseInputs];
  void *out;
  /// Dimensions to walk, outermost first, after those that all operands allow to be one have been merged. 0: an input
  /// has n elements, or one (bit k of `whole` is 0).
  int32_t rank;
  uint32_t whole;
  int32_t isAligned; // all pointers to 16 bytes
  int32_t unused;
  int64_t dims[kElementwiseRank];
  int64_t strides[kElementwiseInputs][kElementwiseRank]; // in elements; 0 where an input is broadcast
  /// Values of attributes in the type that the function computes in, after places for the inputs.
  alignas(8) unsigned char parameters[kElementwiseInputs * 8];
};

} // namespace opc::cuda
