// Two runs of one graph, tensor by tensor: what one makes is kept by name, what the other makes is held against it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RunObserver.h"
#include "TensorCompare.h"

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace opc::cli {

/// By the name of the tensor; a variable that an op updates is there as updatedName().
using KeptTensors = std::map<std::string, HostTensor>;
std::string updatedName(const std::string &variable);

/// Keeps what a run makes, up to a number of bytes; what comes after is counted.
class TensorKeeper final : public RunObserver {
public:
  explicit TensorKeeper(uint64_t mostBytes = uint64_t{2} << 30) : mostBytes_(mostBytes) {}
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override;
  KeptTensors tensors;
  uint64_t leftOut = 0;

private:
  Status keep(const std::string &name, const ObservedTensor &tensor, Result<const void *> bytes);
  const uint64_t mostBytes_;
  std::mutex lock_;
  uint64_t kept_ = 0;
};

/// A tensor that differs.
struct TensorDifference {
  uint32_t task = 0; // in the order of the plan
  std::string tensor, op, type;
  GraphPlace where;
  Comparison comparison;
  std::string text;         // mismatchText
  std::string brokenInput;  // the first input that was found to differ before
  std::string unknownInput; // the first input, made by a task, that the reference does not have
};

/// Compares what a run makes with what was kept. A tensor that the other run does not have under that name and shape is
/// left out: a fused op may keep the name and not the layout. Floating-point types may differ.
class RunComparison final : public RunObserver {
public:
  struct Rules {
    /// For a tensor, given what it should be.
    std::function<Tolerance(const std::string &name, const HostTensor &expected)> tolerance;
    /// Each op gets the reference's inputs, so that it answers for itself alone.
    bool isIsolated = false;
    bool endsAtFirst = false;
  };
  RunComparison(const KeptTensors &reference, Rules rules) : reference_(reference), rules_(std::move(rules)) {}

  Status before(const ObservedTask &task, int64_t step, TaskData &data) override;
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override;
  /// For a tensor that no task of this run has made in this process.
  Status compare(const ObservedTask &task, const std::string &name, const HostTensor &actual);

  /// In the order of the plan.
  std::vector<TensorDifference> differences();
  uint64_t compared() const { return compared_; }
  uint64_t leftOut() const { return leftOut_; }

private:
  const HostTensor *referenceFor(const std::string &name, const user_op::TensorDesc &desc, HostTensor *converted) const;
  Status check(const ObservedTask &task, const std::string &name, const ObservedTensor &tensor,
               Result<const void *> bytes);

  const KeptTensors &reference_;
  const Rules rules_;
  std::mutex lock_;
  std::vector<TensorDifference> found_;
  uint64_t compared_ = 0, leftOut_ = 0;
};

} // namespace opc::cli
