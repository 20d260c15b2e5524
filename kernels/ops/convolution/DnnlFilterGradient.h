// The gradient of an f32 convolution by its weight, by oneDNN.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ConvGeometry.h"
#include "DnnlHandle.h"

#include <optional>

namespace opc::ops {

/// filter_diff from x and dy, between fixed addresses. The samples are cut into shares by their number alone; a share
/// runs on one thread into a weight of its own, and these are added up in order: the bytes of the result do not depend
/// on the number of threads. (The library's own reduction over samples does.)
class DnnlFilterGradient {
public:
  /// Needs a batch, channels and filters. Throws dnnl::error.
  DnnlFilterGradient(const ConvGeometry &g, const float *x, const float *dy, float *filterDiff);
  void run(DeviceCtx *ctx);
  /// oneDNN's name of the implementation, for benchmarks.
  const std::string &implementation() const { return implementation_; }

private:
  struct Share {
    std::optional<cpu::DnnlExecution> reorderX, reorderDy;
    cpu::DnnlExecution gradient;
    float *weight = nullptr;
  };
  std::string implementation_;
  std::vector<Share> shares_;
  std::optional<cpu::DnnlExecution> reorderWeight_;
  int64_t weightElements_ = 0; // of the library's layout, padding included
  std::vector<cpu::Scratch<char>> buffers_;
};

} // namespace opc::ops
