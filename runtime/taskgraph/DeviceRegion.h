// Regions on a GPU: one kernel of generated code, or the ops' own kernels one after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceCode.h"

namespace opc::runtime {

/// A kernel that computes a region over elements on a GPU. The compiler of this load makes the code now; without code
/// each step runs by its GPU's kernel, and what they leave to each other lies in memory beside the plan's. OPC0411
/// where a step has no such kernel either. `region` goes by elements and moves none.
Result<user_op::KernelDef> deviceRegionKernel(const std::shared_ptr<const Region> &region, const Registry &registry);

} // namespace opc::runtime
