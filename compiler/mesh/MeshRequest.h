// What a graph is asked to run on: a mesh of devices, how fast it is, and what the user has decided himself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Boxing.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opc {

struct MeshPrices;

/// "fc*.w=S(0)": the tensors, variables, inputs, outputs or ops with one output whose names match have these states.
struct SbpPin {
  std::string glob;
  NdSbp states;
  std::string text; // as it was written, for errors
};

/// Ops (globs of names) that run on some of the ranks.
struct StagePlacement {
  std::vector<std::string> ops;
  Placement placement;
};

struct MeshRequest {
  std::vector<int64_t> dims; // outermost first
  /// What it costs; null: MeshPrices' defaults. By pointer: most who hold a request know no prices.
  std::shared_ptr<const MeshPrices> prices;
  /// Bytes that a device has; 0: no limit. Plans that need more are an error.
  uint64_t deviceMemory = 0;
  std::vector<SbpPin> pins;
  std::vector<StagePlacement> stages;
  /// Set: a legal signature for each op at random, in place of the cheapest (tests).
  std::optional<uint64_t> randomSeed;
  /// Steps of the graph in one training step, whose gradients are added up.
  int64_t microBatches = 1;
  /// Gradients are reduced together up to so many bytes.
  uint64_t bucketBytes = uint64_t{8} << 20;
  /// Reductions of gradients run beside the computation.
  bool overlap = true;

  int64_t devices() const {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    return n;
  }
};

} // namespace opc
