// The sizes that a plan leaves open, as a session's inputs give them, and a graph for each that has been run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PlanSizes.h"
#include "RankGraph.h"
#include "Session.h"

#include <memory>
#include <utility>
#include <vector>

namespace opc::runtime {

/// What a session knows of a plan's sizes. A graph for given sizes is a plan of fixed shapes: the same checks, the same
/// kernels, in the memory that was taken for the largest sizes.
class FreeSizes {
public:
  /// `open` is the plan as its file has it, its constants' bytes aside. `job` and `registry` outlive this. `native`:
  /// the plan's machine code where it may run, else null.
  FreeSizes(plan::Plan open, const JobPlan &job, const Registry &registry, int threads, const SessionOptions &options,
            std::shared_ptr<NativeImages> native);

  /// Takes out what a plan says of its sizes, which then are the largest; putBack() undoes it.
  static plan::Plan takeOut(plan::Plan *plan);
  static void putBack(const plan::Plan &taken, plan::Plan *plan);

  /// Adds the sizes, and the ports' shapes in terms of them.
  void describe(SessionInterface *interface) const;
  /// From now on the input has this shape. Errors: OPC0704, with the sizes that it may have.
  Status give(size_t input, const Shape &shape, SessionInterface *interface);
  /// Puts the graph for the sizes that were given in the place of `current`, and the outputs' shapes into `interface`.
  /// `isOther` tells whether that is another one. Errors: OPC0704 when inputs disagree; OPC0617; those of loading.
  Status select(std::unique_ptr<RankGraph> *current, SessionInterface *interface, bool *isOther);
  /// Whether the kernels of a graph beside the current one have been tied.
  bool hasBound() const;
  /// The contents of a variable changed.
  void markChanged(uint32_t reg);

private:
  using Given = std::vector<std::optional<int64_t>>; // by size
  struct Kept {
    SizeValues sizes;
    std::unique_ptr<RankGraph> graph;
  };

  const plan::Tensor &tensorOf(const plan::Interface::Port &port) const {
    return plan_.tensor(static_cast<int>(port.tensor()));
  }
  Status misfit(size_t input, const Shape &shape, const SessionInterface &interface) const;
  Status outOfRange(size_t input, const Shape &shape, size_t size, const SessionInterface &interface) const;
  Status disagreement(size_t size, size_t one, size_t other, const SessionInterface &interface) const;
  /// The wanted sizes, when the inputs agree about them.
  Status agree(const SessionInterface &interface) const;
  Result<std::unique_ptr<RankGraph>> make(const RankGraph &sibling) const;
  std::string valuesText(const SizeValues &sizes) const;

  plan::Plan plan_;
  const JobPlan &job_;
  const Registry &registry_;
  int threads_;
  const std::shared_ptr<NativeImages> native_;
  bool keepsVariables_;
  size_t kept_;
  SizeValues wanted_, now_;                 // the last that were given; those of the current graph
  std::vector<std::optional<Given>> given_; // by input
  std::vector<Kept> others_;                // the last one used comes first
};

} // namespace opc::runtime
