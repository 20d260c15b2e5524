// reduce_max and reduce_min.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"

namespace opc::ops::reduce {
namespace {

template <class T> using MaxKernel = ReduceKernel<T, T, MaxReducer<T>>;
template <class T> using MinKernel = ReduceKernel<T, T, MinReducer<T>>;

REGISTER_USER_OP("reduce_max")
    .With(reduceDefinition(inferReduce))
    .Doc(std::string("The largest element over the given axes; NaN if one of them is NaN. ") + kAxisDoc +
         "Of nothing: minus infinity, or the lowest integer.")
    .Cases(reduceCases(-10, 10))
    .Kernel<MaxKernel, types::Numbers>("input_tensor", reduceKernel());

REGISTER_USER_OP("reduce_min")
    .With(reduceDefinition(inferReduce))
    .Doc(std::string("The smallest element over the given axes; NaN if one of them is NaN. ") + kAxisDoc +
         "Of nothing: infinity, or the largest integer.")
    .Cases(reduceCases(-10, 10))
    .Kernel<MinKernel, types::Numbers>("input_tensor", reduceKernel());

} // namespace
} // namespace opc::ops::reduce
