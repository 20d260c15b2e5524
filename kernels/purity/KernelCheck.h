// Tests by execution of what an op's cases promise: that they run, within their memory, in place as well.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <functional>
#include <string>
#include <vector>

namespace opc {

enum class KernelFault {
  kFails,   // in no element type does the case run
  kBeside,  // a kernel writes beside its tensors or its temporary memory
  kReads,   // what it computes depends on what is beside them
  kInPlace, // a result in the memory of an input, as the kernel proposes it, is another one
  kCrashes, // it ended the process: checkKernels() itself never finds it,
  kHangs,   // nor that it never ends
};

struct KernelFinding {
  KernelFault fault;
  std::string op, sample, type; // "my_op", "case big", "f32"; no type where several failed
  std::string detail;
};

struct KernelReport {
  std::vector<KernelFinding> findings; // the first one of each op and kind
  size_t ops = 0, samples = 0;         // that ran
};

/// Runs each case of the op on the CPU, in every element type that has a kernel: in memory between guards, again
/// between two others, and with each pair of a result and an input that the kernel proposes at one address. Of an op
/// that is not pure only what it writes between guards is looked at. Not an op without a kernel for the CPU. `begins`
/// hears of each case, and the type that it is tried in, before it runs.
KernelReport checkKernels(const Registry &registry, const user_op::OpDef &op,
                          const std::function<void(const KernelFinding &)> &begins);

} // namespace opc
