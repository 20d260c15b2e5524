// One f32 convolution by oneDNN, with everything decided at bind time.
#pragma once

#include "ConvGeometry.h"
#include "DnnlHandle.h"

#include <optional>

namespace opc::ops {

/// A convolution between fixed addresses. The library computes in the layout it prefers; in, out and a weight that
/// may change are reordered at the edges, a constant weight once, here.
///
/// The bytes of the result do not depend on the number of threads: the library's direct kernels compute each output
/// in one fixed order on one thread (tests/unit/LibraryOpsConv.cpp holds them to it); its others may not, so they run
/// sample by sample on one thread each.
class DnnlConvolution {
public:
  /// Throws dnnl::error. bias may be null.
  DnnlConvolution(const ConvGeometry &g, const float *in, const float *weight, const float *bias, float *out, bool constantWeight,
                  int threads);
  void run(DeviceCtx *ctx);
  /// oneDNN's name of the implementation, for benchmarks.
  const std::string &implementation() const { return implementation_; }

private:
  std::string implementation_;
  std::optional<cpu::DnnlExecution> reorderIn_, reorderWeight_, reorderOut_;
  bool direct_ = false;
  std::vector<cpu::DnnlExecution> convolutions_; // one; or several, each for its share of the samples
  const float *in_ = nullptr;
  float *out_ = nullptr;
  int64_t samples_ = 0, inSample_ = 0, outSample_ = 0; // elements of a sample
  std::vector<cpu::Scratch<char>> buffers_;
};

} // namespace opc::ops
