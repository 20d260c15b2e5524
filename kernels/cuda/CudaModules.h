// What tasks of generated code ask of a GPU's executor, beside CudaLaunch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CudaLaunch.h"

namespace opc::cuda {

class CudaModules {
public:
  /// The one behind a kernel's executor, which must be a GPU's; while kernels are bound.
  static CudaModules &of(DeviceCtx *ctx) { return dynamic_cast<CudaModules &>(CudaLaunch::of(ctx)); }

  /// A kernel of device code that is no part of this build. Equal texts are loaded once.
  virtual CudaFunction load(const std::string &ptx, const std::string &kernel) = 0;
  /// Memory of the device, aligned to 256 bytes, in which the kernels of one task leave something to each other. That
  /// of all tasks of a stream is the same: they run one after the other.
  virtual void *scratch(size_t bytes) = 0;

protected:
  ~CudaModules() = default;
};

} // namespace opc::cuda
