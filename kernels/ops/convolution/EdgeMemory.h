// Memory for tensors in the library's layout, between the reorders at the edges of a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DnnlHandle.h"

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace opc::ops {

/// What kernels need while they run and not between runs: in memory once for each thread that runs one, as large as the
/// largest of them asks for, and gone with the last kernel that shares it.
class EdgeMemory {
public:
  /// That of this process's kernels, for what a kernel needs as a whole or each of the threads that run its pieces.
  enum class Of { kKernel, kThread };
  static std::shared_ptr<EdgeMemory> shared(Of of = Of::kKernel);

  /// A block, until this goes.
  class Lease {
  public:
    Lease(EdgeMemory &memory, size_t bytes);
    ~Lease();
    Lease(const Lease &) = delete;
    Lease &operator=(const Lease &) = delete;
    /// 64-byte aligned.
    char *data() { return block_.data.get(); }

  private:
    friend class EdgeMemory;
    struct Block {
      size_t bytes = 0;
      cpu::Scratch<char> data;
    };
    EdgeMemory &memory_;
    Block block_;
  };

private:
  std::mutex mutex_;
  std::vector<Lease::Block> free_;
};

} // namespace opc::ops
