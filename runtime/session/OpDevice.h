// A device on which single ops run, outside of any plan: for checks of their kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RunOp.h"

#include <memory>
#include <string>
#include <vector>

namespace opc {

/// The id of errors of a device that has too little memory.
constexpr char kOutOfDeviceMemory[] = "OPC0614";

class OpDevice {
public:
  /// Errors: OPC0820, OPC0630.
  static Result<OpDevice> open(const std::string &name);
  OpDevice(OpDevice &&) noexcept;
  OpDevice &operator=(OpDevice &&) noexcept;
  ~OpDevice();

  /// Whether the kernels of a GPU's device code, or of another processor, run here.
  DeviceType type() const;
  /// Whether it has a kernel for the op, or code is generated for it: of an op that is an expression.
  bool computes(const Registry &registry, const OpInstance &op) const;
  /// runOp() on this device. Every tensor and the workspace are allocations of their own, so that no access beyond one
  /// meets another; outputs and workspace hold nothing before. Waits for the device. What a kernel has done to the
  /// device ends with the call: the next one has it anew.
  Status run(const Registry &registry, const OpInstance &op, std::vector<OpTensor> *inputs,
             std::vector<OpTensor> *outputs);
  /// Counters and findings of the simulator so far, as the JSON of its option report=FILE without those of lines; "" of
  /// a GPU.
  std::string report() const;
  /// How many findings it has; 0 of a GPU.
  size_t findings() const;

private:
  struct Impl;
  explicit OpDevice(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace opc
