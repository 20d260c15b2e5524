// One f32 convolution, or its gradient by the weight, by oneDNN, with everything decided at bind time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DnnlBinding.h"
#include "EdgeMemory.h"

namespace opc::ops {

/// Which product of a convolution is computed.
enum class ConvDirection {
  kForward, // out from in and weight
  kData,    // in from out and weight: the transposed convolution, which is also the gradient by in
};

/// What a convolution does beyond the plain one.
struct ConvExtras {
  std::optional<bool> weightLast;                             // the weight's layout, when it is not the data's
  bool accumulate = false;                                    // the result is added to what target holds
  enum Activation { kNone, kRelu, kClip } activation = kNone; // of the sum; kClip limits to [low, high]
  float low = 0, high = 0;
  std::string packKey; // what a packed weight is made of; "": it is not shared (PackedInputs.h)
};

/// A convolution between fixed addresses. The library computes in the layout it prefers; source, target and a weight
/// that may change are reordered at the edges, a constant weight once, here.
///
/// The bytes of the result do not depend on the number of threads: the library's direct kernels compute each output
/// in one fixed order on one thread (tests/unit/LibraryOpsConv.cpp holds them to it); its others may not, so they run
/// sample by sample on one thread each.
class DnnlConvolution {
public:
  /// `source` is g's in and `target` its out, the other way round for kData. bias may be null and is for kForward only.
  /// Throws dnnl::error.
  DnnlConvolution(const ConvGeometry &g, ConvDirection direction, const float *source, const float *weight,
                  const float *bias, float *target, bool constantWeight, int threads, const ConvExtras &extras = {});
  void run(DeviceCtx *ctx);
  /// The same, but that a NaN stays one in the activation, which is a pass of its own here. The first call makes a
  /// primitive.
  void runKeepingNan(DeviceCtx *ctx);
  /// The weight was packed at construction and is not read again.
  bool hasPackedWeight() const { return packedWeight_; }

private:
  using Executions = std::vector<cpu::DnnlExecution>; // one; or several, each for its share of the samples
  struct Described;
  Executions executions(const Described &pd) const;
  void run(DeviceCtx *ctx, Executions &executions, bool activates);
  void activate(DeviceCtx *ctx) const;
  void placeEdges(Executions &executions, char *memory);

  ConvGeometry geometry_;
  ConvDirection direction_;
  ConvExtras extras_;
  std::optional<cpu::DnnlExecution> reorderSource_, reorderWeight_, reorderAddend_, reorderTarget_;
  bool direct_ = false, packedWeight_ = false;
  Executions convolutions_, plain_; // `plain_`: without the activation
  dnnl::memory::desc sourceLayout_, weightLayout_, targetLayout_;
  const float *source_ = nullptr, *bias_ = nullptr;
  const void *weight_ = nullptr;
  float *target_ = nullptr;
  int sourceArg_ = 0, targetArg_ = 0;
  int64_t samples_ = 0, sourceSample_ = 0, targetSample_ = 0; // elements of a sample
  size_t sourceEdge_ = 0, targetEdge_ = 0; // bytes of a reordered source, of a target that is reordered
  std::shared_ptr<EdgeMemory> edges_;      // where they lie during a run
  DnnlBuffers buffers_;
};

/// filter_diff from x and dy, between fixed addresses. The samples are cut into shares by their number alone; a share
/// runs on one thread into a weight of its own, and these are added up in order: the bytes of the result do not depend
/// on the number of threads. (The library's own reduction over samples does.)
class DnnlFilterGradient {
public:
  /// Needs a batch, channels and filters. Throws dnnl::error.
  DnnlFilterGradient(const ConvGeometry &g, const float *x, const float *dy, float *filterDiff);
  void run(DeviceCtx *ctx);

private:
  struct Share {
    std::optional<cpu::DnnlExecution> reorderX, reorderDy;
    cpu::DnnlExecution gradient;
    float *weight = nullptr;
  };
  std::vector<Share> shares_;
  std::optional<cpu::DnnlExecution> reorderWeight_;
  int64_t weightElements_ = 0; // of the library's layout, padding included
  DnnlBuffers buffers_;
};

} // namespace opc::ops
