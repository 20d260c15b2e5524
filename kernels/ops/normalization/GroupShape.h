// How group_norm and its gradients see x.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "normalization/NormShape.h"

namespace opc::ops::norm {

inline Maybe<void> checkFormat(const std::string &format) {
  if (format == "channels_first" || format == "channels_last") return Maybe<void>::Ok();
  return Error::InvalidValueError().id("OPC0205")
         << "data_format is \"" << format << "\", expected \"channels_first\" or \"channels_last\"";
}

/// x [samples, channels, spatial...], or with the channels last; `own` channels are a group.
struct GroupShape {
  GroupShape(const Shape &x, const std::string &format, int64_t groupCount)
      : first(format == "channels_first"), samples(x.At(0)), channels(x.At(first ? 1 : x.NumAxes() - 1)),
        spatial(first ? x.Count(2) : x.Count(1, x.NumAxes() - 1)), groups(groupCount), own(channels / groups) {}
  explicit GroupShape(const KernelContext *ctx)
      : GroupShape(ctx->Desc("x").shape(), ctx->Attr<std::string>("data_format"), ctx->Attr<int32_t>("num_groups")) {}
  /// Where group t of all samples begins.
  int64_t begin(int64_t t) const { return t / groups * channels * spatial + t % groups * own * (first ? spatial : 1); }
  bool first;
  int64_t samples, channels, spatial, groups, own;
};

/// Checks x and the attributes.
inline Maybe<GroupShape> checkGroups(const InferContext *ctx) {
  const TensorDesc &x = ctx->In("x");
  JUST(checkFloating("x", x));
  JUST(checkFormat(ctx->Attr<std::string>("data_format")));
  const int64_t rank = x.shape().NumAxes(), groups = ctx->Attr<int32_t>("num_groups");
  if (rank < 2) return Error::ShapeMismatch() << "x must have a batch and a channel dimension, it is " << x.toString();
  const GroupShape shape(x.shape(), ctx->Attr<std::string>("data_format"), std::max<int64_t>(1, groups));
  if (groups < 1 || shape.channels % groups != 0)
    return Error::InvalidValueError().id("OPC0205").help("num_groups must divide the number of channels")
           << "num_groups is " << groups << ", but x, " << x.toString() << ", has " << shape.channels << " channels";
  return shape;
}

} // namespace opc::ops::norm
