// reduce_any and reduce_all.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"

namespace opc::ops::reduce {
namespace {

template <class T> using AnyKernel = ReduceKernel<T, bool, TruthReducer<T, false>>;
template <class T> using AllKernel = ReduceKernel<T, bool, TruthReducer<T, true>>;
using TruthTypes = Join<types::Of<bool, float, double>, types::Integers>;

REGISTER_USER_OP("reduce_any")
    .With(reduceDefinition(inferReduceToBool))
    .NoGrad("truth values are not differentiable")
    .Doc(std::string("Whether any element over the given axes is non-zero (NaN is), as bool. ") + kAxisDoc +
         "Of nothing: false.")
    .Cases(reduceCases(0, 2))
    .Kernel<AnyKernel, TruthTypes>("input_tensor", reduceKernel());

REGISTER_USER_OP("reduce_all")
    .With(reduceDefinition(inferReduceToBool))
    .NoGrad("truth values are not differentiable")
    .Doc(std::string("Whether all elements over the given axes are non-zero (NaN is), as bool. ") + kAxisDoc +
         "Of nothing: true.")
    .Cases(reduceCases(0, 2))
    .Kernel<AllKernel, TruthTypes>("input_tensor", reduceKernel());

} // namespace
} // namespace opc::ops::reduce
