// Batches of a data set, step by step: a function of the seed and the step, so that training can stop and go on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "MappedTensor.h"
#include "Session.h"

#include <string>
#include <vector>

namespace opc {

/// Which examples make up which step. An example is an index along the first axis of the data set; an epoch is
/// examples / batch steps, and the examples that do not fill a last batch are left out of it (other ones in each epoch
/// when they are shuffled).
class BatchOrder {
public:
  BatchOrder(int64_t examples, int64_t batch, bool shuffle, uint64_t seed)
      : examples_(examples), batch_(batch), shuffle_(shuffle), seed_(seed) {}
  int64_t examples() const { return examples_; }
  int64_t batch() const { return batch_; }
  int64_t stepsPerEpoch() const { return examples_ / batch_; }
  /// Examples that no step of an epoch uses.
  int64_t leftOver() const { return examples_ % batch_; }
  /// The examples of step `step` (0, 1, ... over all epochs): `batch()` indices, valid until the next call. Shuffled by
  /// Fisher and Yates with the Philox numbers of (seed, epoch): the same on every machine. That takes tableBytes() of
  /// memory.
  const int64_t *batchOf(int64_t step);
  uint64_t tableBytes() const { return shuffle_ ? static_cast<uint64_t>(examples_) * sizeof(int64_t) : 0; }

private:
  int64_t examples_, batch_;
  bool shuffle_;
  uint64_t seed_;
  int64_t epoch_ = -1;
  std::vector<int64_t> order_; // of the epoch; of the batch when nothing is shuffled
};

/// Feeds inputs of a session from data sets that have one example for each index of their first axis.
class BatchLoader {
public:
  struct Source {
    std::string input; // of the session
    MappedTensor data;
  };
  /// Whether examples of a data set of type `have` fit the input. Errors: OPC0703, OPC0704.
  static Status checkType(const user_op::TensorDesc &have, const PortInfo &input);
  /// The input's first dimension is the batch. Errors: OPC0611 (no such input), OPC0703 (dtype), OPC0704 (the other
  /// dimensions differ from the input's, data sets of different sizes, inputs of different batches, fewer examples than
  /// a batch, an input without dimensions), OPC0708 (the order of the examples is over the limit of
  /// limitTensorReads()).
  static Result<BatchLoader> create(const Session &session, std::vector<Source> sources, bool shuffle, uint64_t seed);
  /// One batch: data sets of exactly the inputs' shapes, which may have any first dimension or none. It is one example.
  /// Errors: OPC0611, OPC0703, OPC0704 (another shape).
  static Result<BatchLoader> whole(const Session &session, std::vector<Source> sources);
  /// Whether `sources` are of exactly the inputs' shapes, and these have no first dimension in common.
  static bool isWhole(const Session &session, const std::vector<Source> &sources);
  const BatchOrder &order() const { return order_; }
  /// Copies the examples of step `step` into the session's inputs. OPC0702 where a mapped file has become shorter.
  Status feed(Session &session, int64_t step);

private:
  BatchLoader(std::vector<Source> sources, BatchOrder order) : sources_(std::move(sources)), order_(std::move(order)) {}
  std::vector<Source> sources_;
  BatchOrder order_;
  bool isWhole_ = false; // order_ is of one example
};

} // namespace opc
