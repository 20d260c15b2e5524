// Definitions of max_pool_Nd, avg_pool_Nd and adaptive_avg_poolNd for N = 1, 2, 3.
// SPDX-License-Identifier: Apache-2.0
#include "PoolGeometry.h"

namespace opc::ops {
namespace {

using user_op::Case;
using user_op::InferContext;
using user_op::TensorDesc;
using Ints = std::vector<int32_t>;
using Longs = std::vector<int64_t>;

const char *kWindows = "The windows have kernel_size elements, lie `stride` apart (kernel_size when stride is empty) "
                       "and may reach into a padding of `padding` elements on both sides, or `padding` before and "
                       "`padding_after` after. There are floor((size + padding - span) / stride) + 1 of them a "
                       "dimension, ceil instead of floor with ceil_mode, but none that begins after the input. x is "
                       "[N, C, spatial...] (channels_first) or [N, spatial..., C].";

user_op::OpRegistry pooling(const std::string &name, int line, int dims, bool dilated) {
  user_op::OpRegistry op(name, __FILE__, line);
  op.Pools(dims).Input("x").Output("y");
  if (dilated) op.OptionalOutput("indice");
  op.Attr<Ints>("padding", {})
      .Attr<Ints>("padding_after", {})
      .Attr<std::string>("data_format", "channels_first")
      .RequiredAttr<Ints>("kernel_size")
      .Attr<Ints>("stride", {})
      .Attr<bool>("ceil_mode", false)
      .ArgAlias("padding_before", "padding")
      .ArgAlias("pool_size", "kernel_size")
      .ArgAlias("strides", "stride")
      .SetTensorDescInferFn([dims, dilated](InferContext *ctx) -> Maybe<void> {
        const TensorDesc x = ctx->InputTensorDesc("x", 0);
        if (!IsFloatingDataType(x.data_type()) && !(dilated && x.data_type() == kInt32))
          return Error::TypeError().id("OPC0204").help("cast it to f32")
                 << "x is " << x.toString() << ", expected a floating type" << (dilated ? " or i32" : "");
        const PoolGeometry g = JUST(poolGeometry(x, ctx->user_op_conf(), dims, dilated));
        *ctx->MutOutputTensorDesc("y", 0) = TensorDesc(poolShape(g), x.data_type());
        if (ctx->has_output("indice", 0)) *ctx->MutOutputTensorDesc("indice", 0) = TensorDesc(poolShape(g), kInt64);
        return Maybe<void>::Ok();
      })
      .SetGetSbpFn(poolSbp);
  return op;
}

user_op::OpRegistry maxPool(int line, int dims) {
  user_op::OpRegistry op = pooling("max_pool_" + std::to_string(dims) + "d", line, dims, true);
  op.Attr<Ints>("dilation", {})
      .Attr<bool>("return_indices", false)
      .Doc(std::string("The largest element of each window; NaN wins. The optional output `indice` (i64) holds where "
                       "it was: the index in its channel's spatial dimensions, flattened, of the first largest "
                       "element. Windows are dilated by `dilation`. ") +
           kWindows);
  return op;
}

user_op::OpRegistry avgPool(int line, int dims) {
  user_op::OpRegistry op = pooling("avg_pool_" + std::to_string(dims) + "d", line, dims, false);
  op.Attr<bool>("count_include_pad", false)
      .Attr<int32_t>("divisor_override", 0)
      .Doc(std::string("The mean of each window: its sum divided by the number of its elements inside x (with "
                       "count_include_pad: inside x and its padding), or by divisor_override unless that is 0. ") +
           kWindows);
  return op;
}

user_op::OpRegistry adaptiveAvgPool(int line, int dims) {
  user_op::OpRegistry op("adaptive_avg_pool" + std::to_string(dims) + "d", __FILE__, line);
  op.Pools(dims)
      .Input("x")
      .Output("y")
      .Attr<std::string>("data_format", "channels_first")
      .RequiredAttr<Longs>("output_size")
      .SetTensorDescInferFn([dims](InferContext *ctx) -> Maybe<void> {
        const TensorDesc x = ctx->InputTensorDesc("x", 0);
        if (!IsFloatingDataType(x.data_type()))
          return Error::TypeError().id("OPC0204").help("cast it to f32")
                 << "x is " << x.toString() << ", expected a floating type";
        const PoolGeometry g = JUST(adaptiveGeometry(x, ctx->user_op_conf(), dims));
        *ctx->MutOutputTensorDesc("y", 0) = TensorDesc(poolShape(g), x.data_type());
        return Maybe<void>::Ok();
      })
      .SetGetSbpFn(poolSbp)
      .Doc("The means of output_size windows a spatial dimension that cover x evenly: window i of n over a dimension "
           "of size s holds the elements from floor(i * s / n) to ceil((i + 1) * s / n) - 1. x is [N, C, spatial...] "
           "(channels_first) or [N, spatial..., C].");
  return op;
}

const std::string kLast = "channels_last";

[[maybe_unused]] const user_op::UserOpRegisterTrigger registrations[] = {
    maxPool(__LINE__, 1)
        .Cases({Case("plain")
                    .In("x", {2, 3, 9}, -5, 5)
                    .Attr("kernel_size", Ints{3})
                    .Attr("stride", Ints{2})
                    .Attr("padding", Ints{1}),
                Case("indices")
                    .In("x", {2, 3, 8}, -5, 5)
                    .Attr("kernel_size", Ints{2})
                    .Attr("return_indices", true)
                    .Out("indice")}),
    maxPool(__LINE__, 2)
        .Cases({Case("plain").In("x", {2, 3, 6, 8}, -5, 5).Attr("kernel_size", Ints{2, 2}),
                Case("ceil")
                    .In("x", {1, 2, 7, 6}, -5, 5)
                    .Attr("kernel_size", Ints{3, 2})
                    .Attr("stride", Ints{2, 2})
                    .Attr("padding", Ints{1, 1})
                    .Attr("ceil_mode", true),
                Case("dilated")
                    .In("x", {1, 2, 7, 7}, -5, 5)
                    .Attr("kernel_size", Ints{2, 2})
                    .Attr("stride", Ints{1, 1})
                    .Attr("dilation", Ints{2, 3})
                    .Out("indice"),
                Case("channels_last")
                    .In("x", {2, 5, 4, 9}, -5, 5)
                    .Attr("kernel_size", Ints{2, 2})
                    .Attr("stride", Ints{1, 2})
                    .Attr("data_format", kLast),
                Case("no_samples").In("x", {0, 2, 4, 4}).Attr("kernel_size", Ints{2, 2})}),
    maxPool(__LINE__, 3).Cases({Case("plain").In("x", {1, 2, 4, 5, 6}, -5, 5).Attr("kernel_size", Ints{2, 2, 2})}),
    avgPool(__LINE__, 1)
        .Cases({Case("plain")
                    .In("x", {2, 3, 9})
                    .Attr("kernel_size", Ints{3})
                    .Attr("stride", Ints{2})
                    .Attr("padding", Ints{1})}),
    avgPool(__LINE__, 2)
        .Cases({Case("plain").In("x", {2, 3, 6, 8}).Attr("kernel_size", Ints{2, 2}),
                Case("counted")
                    .In("x", {1, 2, 7, 6})
                    .Attr("kernel_size", Ints{3, 3})
                    .Attr("stride", Ints{2, 2})
                    .Attr("padding", Ints{1, 1})
                    .Attr("count_include_pad", true)
                    .Attr("ceil_mode", true),
                Case("divided")
                    .In("x", {1, 2, 5, 5})
                    .Attr("kernel_size", Ints{2, 2})
                    .Attr("stride", Ints{1, 1})
                    .Attr("divisor_override", int32_t{3}),
                Case("channels_last")
                    .In("x", {2, 5, 4, 9})
                    .Attr("kernel_size", Ints{3, 2})
                    .Attr("stride", Ints{1, 2})
                    .Attr("padding", Ints{1, 0})
                    .Attr("data_format", kLast)}),
    avgPool(__LINE__, 3).Cases({Case("plain").In("x", {1, 2, 4, 5, 6}).Attr("kernel_size", Ints{2, 2, 2})}),
    adaptiveAvgPool(__LINE__, 1).Cases({Case("uneven").In("x", {2, 3, 10}).Attr("output_size", Longs{4})}),
    adaptiveAvgPool(__LINE__, 2)
        .Cases(
            {Case("global").In("x", {2, 3, 5, 4}).Attr("output_size", Longs{1, 1}),
             Case("uneven").In("x", {1, 2, 7, 5}).Attr("output_size", Longs{3, 4}),
             Case("channels_last").In("x", {2, 5, 4, 3}).Attr("output_size", Longs{2, 2}).Attr("data_format", kLast)}),
    adaptiveAvgPool(__LINE__, 3).Cases({Case("uneven").In("x", {1, 2, 4, 5, 6}).Attr("output_size", Longs{2, 3, 4})}),
};

} // namespace
} // namespace opc::ops
