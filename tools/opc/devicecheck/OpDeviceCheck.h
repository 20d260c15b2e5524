// opc verify --device: the kernels of ops on a GPU or in its simulator: numbers against the CPU, findings, counters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpDevice.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace opc::cli {

/// What the simulator counts of a kernel (docs/gpu-simulator.md).
struct KernelCounters {
  uint64_t launches = 0, instructions = 0, lanes = 0, sectors = 0, idealSectors = 0, wavefronts = 0,
           idealWavefronts = 0;
  /// What came to it since `before`.
  KernelCounters since(const KernelCounters &before) const;
};

struct DeviceFailure {
  std::string sample, type; // of which case
  std::string kind;         // "numbers", "error", or the kind of a finding: "race"
  std::string text;
};

struct OpDeviceCheck {
  std::string op;
  uint64_t samples = 0;                   // cases that ran here and on the CPU
  std::vector<std::string> types;         // in which they ran
  std::vector<std::string> withoutKernel; // types that the CPU has a kernel for, and the device has none
  double largestError = 0;                // absolute, over the samples that pass
  std::vector<DeviceFailure> failures;
  std::map<std::string, KernelCounters> kernels; // of the simulator
  bool passed() const { return failures.empty(); }
};

/// Runs the cases of an op in every element type that the CPU has a kernel for, on both. The device goes on behind a
/// failure.
Result<OpDeviceCheck> checkOnDevice(const Registry &registry, const user_op::OpDef &op, OpDevice &device);

} // namespace opc::cli
