// A boxing task tied to the tensors of one rank: what runs in place of a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BoxingExecutor.h"

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
  size_t scratchBytes() const { return executor_.scratchBytes(); }
  void setScratch(void *scratch) { scratch_ = scratch; }
  /// Collective over the ranks of the step. Allocates nothing.
  Status run(Communicator &comm, uint32_t variant) {
    const Variant &v = variants_[variant];
    return executor_.run(comm, channel_, v.inputs.data(), v.outputs.data(), scratch_);
  }
  const std::string &activity() const { return executor_.activity(); }

private:
  struct Variant {
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
  };
  BoxingExecutor executor_;
  int channel_;
  void *scratch_ = nullptr;
  std::vector<Variant> variants_;
};

} // namespace opc::runtime
