// What a graph is asked to run on: a mesh of devices, how fast it is, and what the user has decided himself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Boxing.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opc {

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

/// How fast a device computes.
struct DeviceSpeed {
  double flops = 50e9;           // per second
  double halfWidth = 0;          // operations for each element moved at which half of `flops` is reached
  double memoryBandwidth = 10e9; // bytes per second
  double taskSeconds = 2e-6;     // overhead of a task
};

struct MeshRequest {
  std::vector<int64_t> dims; // outermost first
  /// One link for each mesh dimension; missing ones are Link's defaults.
  MeshLinks links;
  DeviceSpeed device;
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
