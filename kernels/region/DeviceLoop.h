// Regions on a GPU: which ops may be in one, and how code walks their operands.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Region.h"

#include "opc/Scalar.h"

#include <string>

namespace opc {

/// Whether a GPU can compute a function in f32 (with f16 and bf16), f64 or integers by the SDK's own definition. What
/// the SDK leaves to the C library, as exp of f64 or the remainder of floats, it cannot.
bool hasDeviceFunction(scalar::ScalarOp op, DataType type);
/// Whether an op that joins others on the CPU, by this kernel, can be a step of a region on a GPU: code is generated
/// for it from its expression, or for its rows (DeviceRows.h). The answer follows from the op alone, in every program.
bool mayJoinOnDevice(const OpInstance &op, const user_op::KernelDef &kernel, const Joinable &loops);
/// An op as a region of one, by its kernel for the CPU, so that code can be generated for it; null where none can. `op`
/// has its descriptors; `kernel` lives longer than the result.
std::shared_ptr<const Region> deviceRegionOfOne(const OpInstance &op, const user_op::KernelDef &kernel);

/// The loop over the elements of a region without rows and moves, with the dimensions merged that all inputs allow to
/// be one.
struct DeviceLoop {
  enum class Read {
    kWhole,     // element i of the loop is element i of the input
    kSingle,    // one element for all
    kBroadcast, // by its strides
  };
  struct Input {
    Read read = Read::kWhole;
    std::vector<int64_t> strides; // of a broadcast one, by dimension, in elements; 0: repeated. The last is 0 or 1
  };
  std::vector<int64_t> dims; // outermost first
  std::vector<Input> inputs;
  /// Elements of an access: 16 bytes of what is wide, at most 8. Where inputs are broadcast, they divide the last
  /// dimension.
  unsigned lanes = 1;
};
DeviceLoop deviceLoopOf(const Region &region);

/// regionKey() and what code for a GPU depends on besides: regions of one key have one code there.
std::string deviceRegionKey(const Region &region);

} // namespace opc
