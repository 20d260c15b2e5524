// What the device code of random ops is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

struct RandomArguments {
  uint64_t key, stream; // of the words of this run
  /// The elements of this device, in runs of neighbours in the whole: the first at `offset`, the others by strides.
  int64_t n, length, offset;
  int32_t rank, isWhole; // isWhole: element i is element i of the whole
  int64_t sizes[20], strides[20];
  const void *in, *add; // null for none
  void *out, *mask;
  double a, b; // uniform: from, to; normal: mean, std; dropout: a factor; bernoulli: a probability, or less than 0
  float rate;
  int32_t givesBool;
};

} // namespace opc::ops
