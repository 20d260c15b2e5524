// deconv1d, deconv2d and deconv3d: transposed convolutions.
// SPDX-License-Identifier: Apache-2.0
#include "DirectConvolution.h"
#include "DnnlConvolution.h"
#include "support/RegisterFloating.h"

namespace opc::ops {
namespace {

using namespace opc::cpu;
using user_op::Case;
using user_op::InferContext;
using user_op::OpArg;
using user_op::TensorDesc;
using Ints = std::vector<int32_t>;

user_op::OpRegistry deconvolution(const char *name, int line, int dims) {
  user_op::OpRegistry op(name, __FILE__, line);
  op.Input("in")
      .Input("weight")
      .Output("out")
      .Attr<int32_t>("filters", 0)
      .Attr<Ints>("padding_before", {})
      .Attr<std::string>("data_format", "channels_first")
      .Attr<Ints>("kernel_size", {})
      .Attr<Ints>("output_padding", {})
      .Attr<Ints>("strides", {})
      .Attr<Ints>("dilation_rate", {})
      .Attr<int32_t>("groups", 1)
      .SetTensorDescInferFn([dims](InferContext *ctx) -> Maybe<void> {
        const TensorDesc in = ctx->InputTensorDesc("in", 0), weight = ctx->InputTensorDesc("weight", 0);
        if (!IsFloatingDataType(in.data_type()))
          return Error::TypeError().id("OPC0204").help("cast it to f32")
                 << "in is " << in.toString() << ", expected a floating type";
        if (weight.data_type() != in.data_type())
          return Error::TypeError().id("OPC0204").help("cast one of them")
                 << "in is " << in.toString() << " and weight is " << weight.toString()
                 << ": their element types must be the same";
        const ConvGeometry g = JUST(transposedGeometry(in, weight, ctx->user_op_conf(), dims));
        *ctx->MutOutputTensorDesc("out", 0) = TensorDesc(convShape(g, g.channels, g.in), in.data_type());
        return Maybe<void>::Ok();
      })
      .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
        const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("in", 0).shape().NumAxes();
        const int64_t channel = JUST(isChannelsLast(ctx->user_op_conf())) ? rank - 1 : 1;
        const OpArg in("in", 0), weight("weight", 0), out("out", 0);
        ctx->NewBuilder().Split(in, 0).Broadcast(weight).Split(out, 0).Build();
        ctx->NewBuilder().PartialSum(in).Broadcast(weight).PartialSum(out).Build();
        ctx->NewBuilder().Broadcast(in).PartialSum(weight).PartialSum(out).Build();
        if (ctx->Attr<int32_t>("groups") != 1) return Maybe<void>::Ok();
        ctx->NewBuilder().Split(in, channel).Split(weight, 0).PartialSum(out).Build();
        ctx->NewBuilder().Broadcast(in).Split(weight, channel).Split(out, channel).Build();
        return Maybe<void>::Ok();
      })
      .SetComputeComplexityFn([](InferContext *ctx) -> Maybe<double> {
        return 2.0 * static_cast<double>(ctx->InputShape("in", 0).elem_cnt()) *
               static_cast<double>(ctx->InputShape("weight", 0).Count(1));
      })
      .Tolerance(kFloat, 1e-4, 1e-5)
      .Doc("Transposed convolution over " + std::to_string(dims) + " spatial dimension" + (dims > 1 ? "s" : "") +
           ": the adjoint of the convolution with the same weight, which maps out's shape to in's. out[n, f, p * "
           "strides + k * dilation_rate - padding_before] sums in[n, c, p] * weight[c, f, k]. The result has (size - "
           "1) * strides - 2 * padding_before + dilation_rate * (kernel - 1) + 1 + output_padding elements a "
           "dimension. data_format channels_first: in is [N, C, spatial...], weight is [C, filters / groups, "
           "kernel...]; channels_last: [N, spatial..., C] and [C, kernel..., filters / groups].");
  return op;
}

[[maybe_unused]] const user_op::UserOpRegisterTrigger registrations[] = {
    deconvolution("deconv1d", __LINE__, 1)
        .Cases({Case("plain").In("in", {2, 3, 7}).In("weight", {3, 4, 3}).Attr("strides", Ints{2})}),
    deconvolution("deconv2d", __LINE__, 2)
        .Cases({Case("plain").In("in", {2, 3, 5, 4}).In("weight", {3, 4, 3, 3}).Attr("padding_before", Ints{1, 1}),
                Case("strided")
                    .In("in", {1, 8, 4, 4})
                    .In("weight", {8, 8, 4, 3})
                    .Attr("strides", Ints{2, 2})
                    .Attr("padding_before", Ints{1, 1})
                    .Attr("output_padding", Ints{0, 1}),
                Case("groups")
                    .In("in", {1, 4, 5, 5})
                    .In("weight", {4, 3, 2, 2})
                    .Attr("groups", int32_t{2})
                    .Attr("dilation_rate", Ints{2, 1}),
                Case("channels_last")
                    .In("in", {2, 4, 3, 6})
                    .In("weight", {6, 2, 2, 5})
                    .Attr("data_format", std::string("channels_last"))}),
    deconvolution("deconv3d", __LINE__, 3)
        .Cases({Case("plain").In("in", {1, 2, 3, 4, 3}).In("weight", {2, 3, 2, 2, 2}).Attr("strides", Ints{1, 2, 1})}),
};

template <class T> class DeconvKernel final : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    const TensorDesc &desc = *ctx->TensorDesc4ArgNameAndIndex("in", 0);
    const auto geometry = transposedGeometry(desc, *ctx->TensorDesc4ArgNameAndIndex("weight", 0), ctx->user_op_conf(),
                                             static_cast<int>(desc.shape().NumAxes()) - 2, true);
    if (!geometry.IsOk()) throw ContractError(geometry.status().message());
    const ConvGeometry g = geometry.value();
    StagedTensors<T> tensors(ctx);
    const T *in = tensors.in("in"), *weight = tensors.in("weight");
    T *out = tensors.out("out");
    std::unique_ptr<DnnlConvolution> library;
    if constexpr (std::is_same_v<T, float>)
      if (g.filters > 0)
        library = std::make_unique<DnnlConvolution>(g, ConvDirection::kData, in, weight, nullptr, out,
                                                    ctx->isConstant("weight", 0), ctx->device_ctx()->threads());
    return user_op::bindTask([=, tensors = std::move(tensors), library = std::move(library)](DeviceCtx *d) {
      tensors.load(d);
      if (library)
        library->run(d);
      else
        directTransposedConvolution(d, g, in, weight, out);
      tensors.store(d);
    });
  }
};

OPC_REGISTER_FLOATING_CPU_KERNELS("deconv1d", DeconvKernel, "in");
OPC_REGISTER_FLOATING_CPU_KERNELS("deconv2d", DeconvKernel, "in");
OPC_REGISTER_FLOATING_CPU_KERNELS("deconv3d", DeconvKernel, "in");

} // namespace
} // namespace opc::ops
