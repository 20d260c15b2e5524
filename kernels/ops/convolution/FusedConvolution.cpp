// fused_conv2d: a convolution with what usually follows it, in one pass over the result. The compiler makes it.
// SPDX-License-Identifier: Apache-2.0
#include "FusedConvolution.h"
#include "WinogradConvolution.h"
#include "support/FunctionKernel.h"

#include "opc/NanKeeping.h"

#include <cmath>
#include <cstring>

namespace opc::ops {

Maybe<ConvGeometry> fusedGeometry(const TensorDesc &in, const TensorDesc &weight, const UserOpConfWrapper &conf,
                                  Extent extent) {
  const bool last = JUST(isChannelsLast(conf)), weightLast = JUST(isChannelsLast(conf, "weight_format"));
  if (last == weightLast || weight.shape().NumAxes() != 4) return convGeometry(in, weight, conf, 2, extent);
  const Shape moved = shapeOf(imageOf(weight.shape(), weightLast), 2, last);
  return convGeometry(in, TensorDesc(moved, weight.data_type()), conf, 2, extent);
}

Maybe<ConvExtras::Activation> activationOf(const UserOpConfWrapper &conf) {
  const std::string &name = conf.attr<std::string>("activation");
  if (name.empty()) return ConvExtras::kNone;
  if (name == "relu") return ConvExtras::kRelu;
  if (name == "clip") {
    const double low = conf.attr<double>("activation_min"), high = conf.attr<double>("activation_max");
    if (!(low <= high))
      return Error::InvalidValueError().id("OPC0205").help("leave the activation to a clip_by_scalar of its own")
             << "activation_min is " << low << ", expected activation_max or less, which is " << high;
    return ConvExtras::kClip;
  }
  return Error::InvalidValueError().id("OPC0205") << "activation is \"" << name << "\", expected \"\", \"relu\" or "
                                                  << "\"clip\"";
}

namespace {

const char *const kStatistics[] = {"gamma", "beta", "moving_mean", "moving_variance"};

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc in = ctx->In("in"), weight = ctx->In("weight");
  if (in.data_type() != kFloat)
    return Error::TypeError().id("OPC0204").help("conv2d takes the other floating types")
           << "in is " << in.toString() << ", expected f32";
  for (const auto &arg : ctx->inputs())
    if (ctx->In(arg.first).data_type() != in.data_type())
      return Error::TypeError().id("OPC0204").help("cast one of them")
             << "in is " << in.toString() << " and " << arg.first << " is " << ctx->In(arg.first).toString()
             << ": their element types must be the same";
  const ConvGeometry g = JUST(fusedGeometry(in, weight, ctx->user_op_conf()));
  if (g.channels == 0)
    return Error::ShapeMismatch().help("conv2d takes images without channels")
           << "in has no channels: " << in.toString();
  JUST(activationOf(ctx->user_op_conf()));
  JUST(checkFilterVector(ctx, "bias", g));
  for (const char *arg : kStatistics) {
    if (ctx->Has(arg) != ctx->Has("gamma"))
      return Error::CheckFailed().id("OPC0202")
             << "gamma, beta, moving_mean and moving_variance must be given together";
    JUST(checkFilterVector(ctx, arg, g));
  }
  const TensorDesc out(g.outShape(), in.data_type());
  JUST(checkAddend(ctx, out));
  return setOut(ctx, "out", out);
}

/// The batch, and the filters with everything that there is one of for each. What else a convolution allows would need
/// the activation after the sum.
Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const std::string filters = ctx.Attr<int32_t>("groups") == 1 ? "f" : ".";
  const AxisFactors out = JUST(imageFactors(ctx, "in", "n", filters)), each{filters};
  return shardingRule({{"n", ".."}, {filters, ".."}, each, each, each, each, each, out}, {out});
}

Case normalized(const char *name, Shape in, Shape weight) {
  const int64_t filters = weight.At(0);
  return Case(name)
      .In("in", std::move(in))
      .In("weight", std::move(weight))
      .In("gamma", {filters}, 0.5, 2)
      .In("beta", {filters})
      .In("moving_mean", {filters})
      .In("moving_variance", {filters}, 0.5, 2)
      .Attr("epsilon", 1e-5f)
      .Types({kFloat});
}

/// Folds stored statistics into a convolution's weight and bias (doubles in between: the sums are short).
struct Folding {
  const float *weight, *bias, *gamma, *beta, *mean, *variance;
  int64_t filters, perFilter;
  float epsilon;

  void run(float *toWeight, float *toBias) const {
    for (int64_t o = 0; o < filters; ++o) {
      const double scale = gamma[o] / std::sqrt(static_cast<double>(variance[o]) + epsilon);
      toBias[o] = static_cast<float>(((bias ? bias[o] : 0.0) - mean[o]) * scale + beta[o]);
      for (int64_t i = o * perFilter; i < (o + 1) * perFilter; ++i) toWeight[i] = static_cast<float>(weight[i] * scale);
    }
  }
};

/// What a weight with folded statistics is made of.
std::string keyOf(const Folding &f) {
  std::string key;
  const auto add = [&](const auto &value) { key.append(reinterpret_cast<const char *>(&value), sizeof value); };
  for (const float *p : {f.weight, f.bias, f.gamma, f.beta, f.mean, f.variance}) add(p);
  add(f.epsilon);
  return key;
}

std::unique_ptr<BoundKernel> bindFusedConv(KernelBindContext *ctx) {
  const ConvGeometry g =
      valueOf(fusedGeometry(ctx->Desc("in"), ctx->Desc("weight"), ctx->user_op_conf(), Extent::kPiece)).inRows();
  const auto floats = [&](const char *arg) { return ctx->Has(arg) ? ctx->In(arg).dptr<float>() : nullptr; };
  Folding fold{floats("weight"),
               floats("bias"),
               floats("gamma"),
               floats("beta"),
               floats("moving_mean"),
               floats("moving_variance"),
               g.filters,
               g.channels / g.groups * g.kernel[1] * g.kernel[2],
               ctx->Attr<float>("epsilon")};
  const float *in = floats("in"), *add = floats("_add_to_output");
  float *out = ctx->Out("out").mut_dptr<float>();
  ConvExtras extras;
  extras.weightLast = isChannelsLast(ctx->user_op_conf(), "weight_format").value();
  extras.accumulate = add != nullptr;
  extras.activation = activationOf(ctx->user_op_conf()).value();
  extras.low = static_cast<float>(ctx->Attr<double>("activation_min"));
  extras.high = static_cast<float>(ctx->Attr<double>("activation_max"));

  const float *weight = fold.weight, *bias = fold.bias;
  const bool folds = fold.gamma != nullptr;
  bool constant = ctx->isConstant("weight", 0);
  Scratch<float> ownWeight, ownBias;
  if (folds) {
    for (const char *arg : kStatistics) constant = constant && ctx->isConstant(arg, 0);
    constant = constant && (!bias || ctx->isConstant("bias", 0));
    ownWeight = Scratch<float>(g.filters * fold.perFilter);
    ownBias = Scratch<float>(g.filters);
    fold.run(ownWeight.get(), ownBias.get());
    weight = ownWeight.get();
    bias = ownBias.get();
  }
  if (constant) extras.packKey = keyOf(fold);
  std::unique_ptr<WinogradConvolution> winograd;
  std::unique_ptr<DnnlConvolution> library;
  if (constant && ctx->Attr<bool>("winograd")) winograd = WinogradConvolution::create(g, in, weight, bias, out, extras);
  if (!winograd)
    library = std::make_unique<DnnlConvolution>(g, ConvDirection::kForward, in, weight, bias, out, constant,
                                                ctx->device_ctx()->threads(), extras);
  if (winograd || (constant && library->hasPackedWeight())) {
    ownWeight = {};
    notePackedInput(ctx, "weight");
  }
  const bool refold = folds && !constant;
  const int64_t count = ctx->Out("out").shape().elem_cnt();
  return bindTask([=, winograd = std::move(winograd), library = std::move(library), ownWeight = std::move(ownWeight),
                   ownBias = std::move(ownBias)](DeviceCtx *d) {
    if (refold) fold.run(ownWeight.get(), ownBias.get());
    if (add && add != out)
      d->parallelFor(count, 16384, [&](int64_t begin, int64_t end) {
        std::memcpy(out + begin, add + begin, static_cast<size_t>(end - begin) * sizeof(float));
      });
    if (winograd)
      winograd->run(d);
    else
      keepsNan() ? library->runKeepingNan(d) : library->run(d);
  });
}

Maybe<void> inplace(const InferContext &ctx, AddInplaceArgPair add) {
  return ctx.Has("_add_to_output") ? add("out", 0, "_add_to_output", 0, true) : Maybe<void>::Ok();
}

REGISTER_USER_OP("fused_conv2d")
    .With(TensorArgs{{"in", "weight"}, {"out"}})
    .OptionalInput("bias")
    .OptionalInput("gamma")
    .OptionalInput("beta")
    .OptionalInput("moving_mean")
    .OptionalInput("moving_variance")
    .OptionalInput("_add_to_output")
    .Attr<int32_t>("filters", 0)
    .With(convArgs)
    .Attr<std::string>("weight_format", "channels_first")
    .Attr<float>("epsilon", 0.0f)
    .Attr<std::string>("activation", "")
    .Attr<double>("activation_min", 0.0)
    .Attr<double>("activation_max", 0.0)
    .With(filteringArg)
    .With(rules(infer, sharding))
    .SetComputeComplexityFn(convOperations("out", "weight"))
    .Tolerance(kFloat, 1e-4, 1e-5)
    .NoGrad("the compiler makes it after gradients have been generated")
    .Doc("conv2d and what usually follows it, for f32: out = act(norm(conv2d(in, weight) + bias) + _add_to_output). "
         "norm is the normalization of the filters with stored statistics, (v - moving_mean) / sqrt(moving_variance "
         "+ epsilon) * gamma + beta, when they are given; it is folded into the weight. act is nothing, relu, or "
         "clip to [activation_min, activation_max], which keep NaN. data_format is the "
         "layout of in and out, weight_format that of the weight. The compiler makes this op from a graph's conv2d "
         "(docs/adr/0006-library-fusion.md)." +
         std::string(kFilteringDoc))
    .Cases({Case("plain")
                .In("in", {2, 3, 8, 7})
                .In("weight", {8, 3, 3, 3})
                .In("bias", {8})
                .Attr("padding_before", Ints{1, 1})
                .Types({kFloat}),
            normalized("normalized", {1, 4, 6, 6}, {16, 4, 3, 3})
                .Attr("activation", std::string("relu"))
                .Attr("strides", Ints{2, 2}),
            normalized("last_added", {2, 5, 6, 4}, {8, 4, 1, 1})
                .In("bias", {8})
                .In("_add_to_output", {2, 5, 6, 8})
                .Attr("data_format", std::string("channels_last"))
                .Attr("activation", std::string("relu")),
            normalized("depthwise", {1, 7, 7, 8}, {8, 1, 3, 3})
                .Attr("groups", int32_t{8})
                .Attr("padding_before", Ints{1, 1})
                .Attr("data_format", std::string("channels_last"))
                .Attr("activation", std::string("clip"))
                .Attr("activation_min", -0.25)
                .Attr("activation_max", 0.5),
            Case("no_samples").In("in", {0, 2, 4, 4}).In("weight", {3, 2, 3, 3}).Types({kFloat})})
    .Kernel<FunctionKernel<bindFusedConv>>(KernelOptions().When(HobDataType("in", 0) == kFloat).Inplace(inplace));

} // namespace
} // namespace opc::ops
