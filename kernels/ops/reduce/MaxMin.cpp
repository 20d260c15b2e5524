// reduce_max and reduce_min.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"

namespace opc::ops::reduce {
namespace {

template <class T> using MaxKernel = ReduceKernel<T, T, MaxReducer<T>>;
template <class T> using MinKernel = ReduceKernel<T, T, MinReducer<T>>;

REGISTER_USER_OP("reduce_max")
    .Input("input_tensor")
    .Output("output_tensor")
    .RequiredAttr<std::vector<int32_t>>("axis")
    .Attr<bool>("keepdims", false)
    .SetTensorDescInferFn(inferReduce)
    .SetGetSbpFn(plainReduceSbp)
    .Doc(std::string("The largest element over the given axes; NaN if one of them is NaN. ") + kAxisDoc +
         "Of nothing: minus infinity, or the lowest integer.")
    .Cases(reduceCases(-10, 10));

REGISTER_USER_OP("reduce_min")
    .Input("input_tensor")
    .Output("output_tensor")
    .RequiredAttr<std::vector<int32_t>>("axis")
    .Attr<bool>("keepdims", false)
    .SetTensorDescInferFn(inferReduce)
    .SetGetSbpFn(plainReduceSbp)
    .Doc(std::string("The smallest element over the given axes; NaN if one of them is NaN. ") + kAxisDoc +
         "Of nothing: infinity, or the largest integer.")
    .Cases(reduceCases(-10, 10));

const CpuKernelOptions kOptions{reduceTmpSize, nullptr};
OPC_CPU_KERNELS_WITH("reduce_max", "input_tensor", kOptions, MaxKernel, float, double, float16, bfloat16, int8_t,
                     uint8_t, int32_t, int64_t);
OPC_CPU_KERNELS_WITH("reduce_min", "input_tensor", kOptions, MinKernel, float, double, float16, bfloat16, int8_t,
                     uint8_t, int32_t, int64_t);

} // namespace
} // namespace opc::ops::reduce
