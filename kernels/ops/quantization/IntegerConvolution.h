// A convolution of 8-bit integers, prepared once and run often.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "IntegerProduct.h"
#include "convolution/ConvGeometry.h"
#include "opc/Kernel.h"

#include <vector>

namespace opc::ops {

/// out = bias + the convolution of (in - inZero) with (weight - weightZero), with zeros outside in, finished. The
/// weight is [filters, channels / groups, kernel...] in both layouts.
struct IntegerConvSpec {
  ConvGeometry geometry;
  cpu::Bytes in, weight;
  cpu::ZeroPoints inZero, weightZero; // one of in, one or one for each filter of weight
  const int32_t *bias = nullptr;
  bool constantWeight = false; // weight and its zero points are final
  cpu::SumFinish finish;
};

/// By the library where that is exact, by 16-bit dot products elsewhere. The results are the same.
class IntegerConvolution {
public:
  IntegerConvolution(const IntegerConvSpec &spec, int threads);
  void run(DeviceCtx *ctx, void *out);
  /// run() does not read the weight.
  bool hasPackedWeight() const { return s_.constantWeight; }

private:
  /// Filters that the library takes at once.
  struct Part {
    int64_t first = 0, filters = 0;
    dnnl::memory::desc plain, layout;
    cpu::Scratch<char> packed;
  };
  /// What one thread has: an execution for whole bands and for the last one of each part, and sums of a band.
  struct Worker {
    std::vector<cpu::DnnlExecution> executions;
    cpu::Scratch<int32_t> sums;
  };
  bool prepareLibrary(int threads);
  void chooseBands(int threads);
  bool prepareParts();
  dnnl::convolution_forward::primitive_desc describe(int64_t rows, const Part &part) const;
  void prepareWorkers(int threads);
  void packLibraryWeight();
  void packDots();
  void addZeroPoint();
  void fillImages(DeviceCtx *ctx);
  void fillRow(int64_t row, int64_t first, int64_t last);
  void runLibrary(DeviceCtx *ctx, void *out);
  void runBand(Worker &worker, int64_t task, void *out);
  void runDots(DeviceCtx *ctx, void *out);
  void gatherWindow(int64_t sample, int64_t group, int64_t position, int32_t zero, int16_t *to) const;
  void finish(const int32_t *sums, int64_t sample, int64_t position, int64_t count, int64_t filter, int64_t filters,
              void *out) const;
  /// The library cannot read in as it lies.
  bool movesImages() const;

  IntegerConvSpec s_;
  Spatial padded_{1, 1, 1};
  int64_t own_ = 0, perGroup_ = 0, terms_ = 0, positions_ = 0; // of a window; of an output's plane
  size_t outer_ = 0;                                           // the spatial dimension that bands cut
  int64_t bandRows_ = 0, bands_ = 0;
  std::vector<Part> parts_; // none without the library
  std::vector<Worker> workers_;
  cpu::Scratch<char> images_;               // channels last, with the padding in place
  cpu::Scratch<int32_t> filterSums_, more_; // of the weight; the biases less the zero point's share
  cpu::Scratch<float> zeros_;               // of the result's channels
  cpu::Scratch<int16_t> centred_;           // the weight less its zero points
};

/// The task of an op with the arguments of integer_conv2d.
std::unique_ptr<BoundKernel> bindIntegerConv(KernelBindContext *ctx, const ConvGeometry &geometry,
                                             const cpu::SumFinish &finish);

} // namespace opc::ops
