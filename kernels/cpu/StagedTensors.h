// The SDK's staged tensors and scratch memory under the names that the CPU kernels know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/StagedKernel.h"

namespace opc::cpu {

using user_op::allocateScratch;
using user_op::freeScratch;
using user_op::Scratch;
using user_op::StagedTensors;

} // namespace opc::cpu
