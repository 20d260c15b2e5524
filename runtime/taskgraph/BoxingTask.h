// A boxing task tied to the tensors of one rank: what runs in place of a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DeviceExchange.h"

#include <string>
#include <vector>

namespace opc::runtime {

class BoxingTask {
public:
  BoxingTask(BoxingExecutor executor, int channel) : executor_(std::move(executor)), channel_(channel) {}
  /// The addresses of one combination of slots, in the order of the combinations.
  void addVariant(std::vector<const void *> inputs, std::vector<void *> outputs) {
    variants_.push_back({std::move(inputs), std::move(outputs)});
  }
  size_t variants() const { return variants_.size(); }
  /// Its tensors are in a device's memory.
  void setDevice(std::unique_ptr<DeviceBoxing> device) { device_ = std::move(device); }
  BoxingExecutor &executor() { return executor_; }
  size_t hostBytes() const { return device_ ? device_->hostBytes() : executor_.scratchBytes(); }
  size_t deviceBytes() const { return device_ ? device_->deviceBytes() : 0; }
  void setScratch(const DeviceBoxing::Scratch &scratch) { scratch_ = scratch; }
  /// Collective over the ranks of the step. Allocates nothing.
  Status run(Communicator &comm, Stream &stream, uint32_t variant) {
    const Variant &v = variants_[variant];
    if (!device_) return executor_.run(comm, channel_, v.inputs.data(), v.outputs.data(), scratch_.host);
    comm.setActivity(channel_, &executor_.activity());
    Status status = device_->run(comm, stream, v.inputs.data(), v.outputs.data(), scratch_);
    comm.setActivity(channel_, nullptr);
    return status;
  }
  const std::string &activity() const { return executor_.activity(); }

private:
  struct Variant {
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
  };
  BoxingExecutor executor_;
  int channel_;
  std::unique_ptr<DeviceBoxing> device_;
  DeviceBoxing::Scratch scratch_;
  std::vector<Variant> variants_;
};

} // namespace opc::runtime
