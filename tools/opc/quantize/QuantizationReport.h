// What quantisation changes in each tensor, as text and JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "HostTensor.h"
#include "JsonOutput.h"
#include "QuantizedGraph.h"
#include "RunObserver.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace opc::cli {

/// Copies of the tensors that tasks make, in f32. Of the first step.
class TensorCopies final : public RunObserver {
public:
  explicit TensorCopies(uint64_t limit) : limit_(limit) {}
  struct Copy {
    std::string op, type;
    std::vector<float> values;
    bool isNegligible = false; // rounding noise of what the op reads: under 1e-5 of it
  };
  const std::map<std::string, Copy> &copies() const { return copies_; }
  /// Tensors that went beyond the limit in bytes.
  const std::set<std::string> &leftOut() const { return leftOut_; }
  bool sees(const std::string &tensor) const { return copies_.count(tensor) || leftOut_.count(tensor); }
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override;

private:
  /// The largest absolute value of what the task reads in f32, which has been made before or is there from the start.
  Result<float> largestInput(const ObservedTask &task, TaskData &data);
  uint64_t limit_, used_ = 0;
  std::map<std::string, float> largest_; // absolute values, of tensors
  std::set<std::string> leftOut_;
  std::map<std::string, Copy> copies_;
};

/// How near a tensor of the quantised graph is to that of the graph.
struct TensorAccuracy {
  std::string tensor, op, type;
  bool isQuantized = false;   // the op's weight, and in kStatic its data
  bool isNegligible = false;  // beside what the op reads, in both graphs
  double cosine = 1, snr = 0; // snr in dB; infinite when equal; 0 and -infinity where one has numbers and one has not
};

struct QuantizationAccuracy {
  std::vector<TensorAccuracy>
      tensors;        // that both graphs have; least ratio of signal to noise first, negligible ones last
  size_t leftOut = 0; // of such tensors: those that went beyond the limit in bytes
};

/// `names`: what tensors of the graph are called in the quantised one where that differs.
QuantizationAccuracy accuracyOf(const TensorCopies &expected, const TensorCopies &made,
                                const std::map<std::string, std::string> &names,
                                const std::set<std::string> &quantizedOps);

Json accuracyJson(const TensorAccuracy &accuracy);
/// A table of the first `count`, without negligible ones.
std::string accuracyTable(const std::vector<TensorAccuracy> &list, QuantizeMode mode, size_t count);

} // namespace opc::cli
