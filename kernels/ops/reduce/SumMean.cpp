// reduce_sum and reduce_mean.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"

namespace opc::ops::reduce {
namespace {

template <class T> using SumKernel = ReduceKernel<T, T, SumReducer<T>>;
template <class T> using MeanKernel = ReduceKernel<T, T, MeanReducer<T>>;

Maybe<void> inferMean(InferContext *ctx) {
  const DataType t = ctx->InputDType("input_tensor", 0);
  if (!IsFloatingDataType(t))
    return (Error::TypeError() << "the mean of " << dataTypeName(t) << " is no " << dataTypeName(t))
        .help("cast the input to a floating dtype");
  return inferReduce(ctx);
}

REGISTER_USER_OP("reduce_sum")
    .Input("input_tensor")
    .Output("output_tensor")
    .RequiredAttr<std::vector<int32_t>>("axis")
    .Attr<bool>("keepdims", false)
    .SetTensorDescInferFn(inferReduce)
    .SetGetSbpFn(linearReduceSbp)
    .Doc(std::string("The sum over the given axes. ") + kAxisDoc +
         "Floating sums are blocked, with f64 between blocks; f16 and bf16 accumulate in f32. Integers wrap around. "
         "The sum of "
         "nothing is 0.")
    .Cases(reduceCases());

REGISTER_USER_OP("reduce_mean")
    .Input("input_tensor")
    .Output("output_tensor")
    .RequiredAttr<std::vector<int32_t>>("axis")
    .Attr<bool>("keepdims", false)
    .SetTensorDescInferFn(inferMean)
    .SetGetSbpFn(meanReduceSbp)
    .Doc(std::string("The mean over the given axes, of floating tensors. ") + kAxisDoc +
         "Accumulated as reduce_sum does. The mean of nothing is NaN.")
    .Cases(reduceCases());

const CpuKernelOptions kOptions{reduceTmpSize, nullptr};
OPC_CPU_KERNELS_WITH("reduce_sum", "input_tensor", kOptions, SumKernel, float, double, float16, bfloat16, int8_t,
                     uint8_t, int32_t, int64_t);
OPC_CPU_KERNELS_WITH("reduce_mean", "input_tensor", kOptions, MeanKernel, float, double, float16, bfloat16);

} // namespace
} // namespace opc::ops::reduce
