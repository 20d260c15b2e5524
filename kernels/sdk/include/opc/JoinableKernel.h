// Kernels whose output is computed element by element: what joins several of them into one loop takes their rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

namespace opc::user_op {

/// The loop of one op over consecutive elements, with its attributes read. Several threads may call it at once.
class RowLoop {
public:
  virtual ~RowLoop() = default;
  /// Computes n elements. Bit k of `contiguous` says that in[k] has n elements; without it in[k] is one element, which
  /// stands for all of them. `out` may be an input of elements of the same size, from its first one on.
  virtual void Run(const void *const *in, uint32_t contiguous, void *out, int64_t n) const = 0;
};

/// An OpKernel that has such a loop: element i of its one output depends on elements i of its inputs alone, once those
/// are broadcast to the output's shape. Elementwise operators have it without asking for it.
class JoinableKernel {
public:
  virtual ~JoinableKernel() = default;
  /// Leaves `loop` empty where this op instance has none. The inputs of the loop are the op's, in their order. Needs
  /// attributes and descriptors, and no tensors.
  virtual Status MakeLoop(const KernelContext &ctx, std::unique_ptr<RowLoop> *loop) const = 0;
};

namespace elementwise {
/// A loop that calls `row` (Row in opc/Elementwise.h), which takes so many inputs, with a copy of these parameters. It
/// throws ContractError where an elementwise kernel has no room for them.
std::unique_ptr<RowLoop> makeLoop(size_t inputs, size_t outputElementSize,
                                  void (*row)(const void *const *, uint32_t, const void *, void *, int64_t),
                                  const void *parameters, size_t parameterBytes);
} // namespace elementwise

} // namespace opc::user_op
