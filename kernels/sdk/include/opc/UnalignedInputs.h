// Kernels that only copy bytes of an input: they read it in a file where it lies, which aligns nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

#include <string>

namespace opc::user_op {

/// An OpKernel some of whose inputs may begin at any address. Of a large constant one, of which a run reads little (the
/// rows that indices name), the file that it is in needs no copy in memory.
class UnalignedInputs {
public:
  virtual ~UnalignedInputs() = default;
  /// Needs attributes and descriptors, and no tensors. The kernel's bound form keeps the address of the input.
  virtual bool MayBeUnaligned(const KernelContext &ctx, const std::string &arg) const = 0;
};

} // namespace opc::user_op
