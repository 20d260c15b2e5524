// One rank's part of a session: its task graph, and the way between whole tensors and this rank's pieces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "HostTensor.h"
#include "TaskGraph.h"

namespace opc::runtime {

class RankGraph {
public:
  /// `part` is the rank's part of the plan. Takes the memory; constants are still to be given.
  /// With `sibling`, the same part for other sizes, in the sibling's memory. With `native`, the plan's machine code
  /// runs.
  static Result<std::unique_ptr<RankGraph>> load(const plan::Plan &part, const JobPlan &job, int64_t rank,
                                                 const Registry &registry, int threads, const RankLink &link,
                                                 const RankGraph *sibling = nullptr,
                                                 const std::shared_ptr<NativeImages> &native = nullptr);

  TaskGraph &graph() { return *graph_; }
  const TaskGraph &graph() const { return *graph_; }
  int64_t rank() const { return graph_->model().rank; }

  /// Tensors of the job that this rank has, by their index in the job's lists: nullptr where it has none.
  const ModelPort *input(size_t index) const { return find(graph_->model().inputs, inputs_[index]); }
  const ModelPort *output(size_t index) const { return find(graph_->model().outputs, outputs_[index]); }
  const ModelPort *variable(size_t index) const { return find(graph_->model().variables, variables_[index]); }

  /// Copies this rank's piece out of a whole tensor; batched inputs take one micro-batch after the other.
  Status giveInput(size_t index, const void *whole);
  /// Copies it back to where it was.
  Status readInput(size_t index, void *whole);
  Status giveVariable(size_t index, const void *whole);
  Status giveConstant(size_t index, const void *whole);

  /// Collective over all ranks of the job: the whole tensor on every one of them. `whole` has room for it.
  Status gatherOutput(size_t index, Communicator &comm, void *whole);
  Status gatherVariable(size_t index, Communicator &comm, void *whole);

private:
  explicit RankGraph(const JobPlan &job) : job_(&job) {}
  static const ModelPort *find(const std::vector<ModelPort> &list, uint32_t at) {
    return at == kNone ? nullptr : &list[at];
  }
  Status give(uint32_t tensor, const std::optional<TensorSharding> &sharding, const void *whole, int64_t step);
  Status take(uint32_t tensor, const std::optional<TensorSharding> &sharding, void *whole, int64_t step);
  /// A tensor of this rank, or a copy of it, which the next call overwrites; null for kNone.
  Result<const void *> onHost(uint32_t tensor, int64_t step);
  Status gather(const JobPort &port, const void *piece, Communicator &comm, void *whole);

  const JobPlan *job_;
  std::unique_ptr<TaskGraph> graph_;
  std::vector<uint32_t> inputs_, outputs_, variables_; // job index -> index in the model
  std::vector<char> piece_;                            // for devices whose memory the host cannot reach
};

/// Whether every rank of the job has the whole tensor.
bool isEverywhere(const JobPort &port, const JobPlan &job);

} // namespace opc::runtime
