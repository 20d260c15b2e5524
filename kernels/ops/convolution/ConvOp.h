// What the convolution operators share: attributes, checks, and the task that computes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DirectConvolution.h"
#include "WinogradConvolution.h"
#include "opc/PackedInputs.h"

namespace opc::ops {

/// The attributes that describe the window.
void convArgs(OpRegistry &op);
/// Whether 3x3 windows may be computed by minimal filtering (WinogradConvolution), and what documentation says of it.
void filteringArg(OpRegistry &op);
inline constexpr const char *kFilteringDoc = " With winograd 3x3 windows of f32 may be computed by minimal filtering, "
                                             "whose errors are larger (docs/numerics.md#convolutions).";
/// Two operations for each element of `arg` and each weight of a filter. From shapes alone: the attributes speak of the
/// whole, the shapes may be a device's piece.
ComputeComplexityFn convOperations(const char *arg, const char *weight);

/// The first argument has a floating type, the others, if given, the same.
Maybe<void> checkTypes(InferContext *ctx, const std::vector<std::string> &args);
/// A vector with an element for each filter, if given.
Maybe<void> checkFilterVector(InferContext *ctx, const std::string &arg, const ConvGeometry &g);
/// _add_to_output, if given, is what the convolution gives.
Maybe<void> checkAddend(InferContext *ctx, const TensorDesc &out);

/// The factors of a convolution: channels and filters for themselves, of which the channels are summed; with groups,
/// whole groups of both together. A filter's own channels then stay whole.
struct ChannelFactors {
  std::string channels, filters, ofFilter;
  AxisFactors sums;
};
inline ChannelFactors channelFactors(const SbpContext &ctx) {
  const int32_t groups = ctx.Attr<int32_t>("groups");
  if (groups == 1) return {"c", "f", "c", {"c"}};
  const std::string group = groups % ctx.parallel_num() == 0 ? "g*" : ".";
  return {group, group, ".", {}};
}

/// The attribute of the backward ops, which serve convolutions over 1, 2 and 3 dimensions.
Maybe<int> numSpatialDims(InferContext *ctx);
inline int spatialDims(const TensorDesc &image) { return static_cast<int>(image.shape().NumAxes()) - 2; }

/// The task of a convolution or of its adjoint, `target` from `source` and `weight`, plus bias and _add_to_output when
/// the op has them: by oneDNN in f32, by minimal filtering if it `mayFilter` and fits, by plain loops in f64 and over
/// no channels, which oneDNN refuses.
template <class T>
std::unique_ptr<BoundKernel>
bindConvolution(KernelBindContext *ctx, StagedTensors<T> &staged, const ConvGeometry &geometry, ConvDirection direction,
                const char *sourceArg, const char *weightArg, const char *targetArg, bool mayFilter = false) {
  const ConvGeometry g = geometry.inRows();
  const T *source = staged.in(sourceArg), *weight = staged.in(weightArg), *bias = staged.in("bias"),
          *add = staged.in("_add_to_output");
  T *target = staged.out(targetArg);
  const bool forward = direction == ConvDirection::kForward;
  std::unique_ptr<WinogradConvolution> filtering;
  std::unique_ptr<DnnlConvolution> library;
  if constexpr (std::is_same_v<T, float>) {
    cpu::setLibraryThreads(ctx->device_ctx()->threads()); // its moves between layouts are the library's
    if (mayFilter) filtering = WinogradConvolution::ofChanging(g, direction, source, weight, bias, target);
    if (!filtering && (forward ? g.channels : g.filters) > 0)
      library = std::make_unique<DnnlConvolution>(g, direction, source, weight, bias, target,
                                                  ctx->isConstant(weightArg, 0), ctx->device_ctx()->threads());
  }
  if (library && library->hasPackedWeight()) notePackedInput(ctx, weightArg);
  const int64_t count = ctx->Out(targetArg).shape().elem_cnt();
  return bindTask([=, direct = DirectConvolution<T>(g), filtering = std::move(filtering),
                   library = std::move(library)](DeviceCtx *d) {
    if (filtering)
      filtering->run(d);
    else if (library)
      library->run(d);
    else if (forward)
      direct.forward(d, source, weight, bias, target);
    else
      direct.transposed(d, source, weight, target);
    if (add)
      d->parallelFor(count, 16384, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) target[i] += add[i];
      });
  });
}

} // namespace opc::ops
