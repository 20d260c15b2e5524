// What quantisation changes in each tensor, as text and JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "HostTensor.h"
#include "JsonOutput.h"
#include "RunObserver.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace opc::cli {

/// Copies of the tensors that tasks make, in f32: those of some names, or all. Of the first step.
class TensorCopies final : public RunObserver {
public:
  explicit TensorCopies(uint64_t limit) : limit_(limit) {}
  struct Copy {
    std::string op, type;
    std::vector<float> values;
  };
  const std::map<std::string, Copy> &copies() const { return copies_; }
  /// Tensors that went beyond the limit in bytes.
  uint64_t leftOut() const { return leftOut_; }
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override;

private:
  uint64_t limit_, used_ = 0, leftOut_ = 0;
  std::map<std::string, Copy> copies_;
};

/// How near a tensor of the quantised graph is to that of the graph.
struct TensorAccuracy {
  std::string tensor, op, type;
  bool isQuantized = false;   // the op is computed on integers
  double cosine = 1, snr = 0; // snr in dB; infinite when equal
};

/// Of tensors that both have; least ratio of signal to noise first.
std::vector<TensorAccuracy> accuracies(const TensorCopies &expected, const TensorCopies &made,
                                       const std::set<std::string> &quantizedOps);

Json accuracyJson(const TensorAccuracy &accuracy);
/// A table of the first `count`.
std::string accuracyTable(const std::vector<TensorAccuracy> &list, size_t count);

} // namespace opc::cli
