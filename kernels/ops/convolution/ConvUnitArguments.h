// What the device code of convolutions on matrix units is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convolution/ConvArguments.h"

namespace opc::ops {

struct ConvUnitArguments {
  ConvArguments conv;
  int32_t isLast; // channels_last
  // Of either factor: what follows on each other in memory comes in whole accesses of 16 bytes.
  int32_t isWhole[2];
  int32_t unused;
};

} // namespace opc::ops
