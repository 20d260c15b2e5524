// Code for GPUs: what a compiler of regions gives for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Region.h"

#include <memory>
#include <string>

namespace opc {

/// One kernel for a GPU that computes a region, with any number of blocks of kDeviceBlock threads. Its parameters:
/// where each input lies, then each output, then, of 64 bits, of a region over elements their number and the number of
/// packs, of one over rows the number of rows and for each step with indices (checkedIndices()) where a wrong one is
/// noted, as kernels/cuda/IndexFault.h says. It computes the packs, of `lanes` elements each, by accesses that are
/// aligned to their size, and what is left of the elements one by one; rows by a warp each.
struct DeviceCode {
  std::string ptx, kernel;
  int64_t lanes = 1;
};
constexpr uint32_t kDeviceBlock = 256, kDeviceWarp = 32;

class DeviceCompiler {
public:
  virtual ~DeviceCompiler() = default;
  /// Null, with the reason, where there is no code for it. Several threads may call it.
  virtual std::shared_ptr<const DeviceCode> compileForDevice(const Region &region, std::string *reason) = 0;
};

/// regionCompiler(), where it makes code for GPUs, too; else null.
std::shared_ptr<DeviceCompiler> deviceCompiler();
/// The same of a plan that this thread loads now: null while it is to have no code.
std::shared_ptr<DeviceCompiler> deviceCompilerOfLoad();

} // namespace opc
