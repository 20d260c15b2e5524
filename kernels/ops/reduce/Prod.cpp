// reduce_prod.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"

namespace opc::ops::reduce {
namespace {

template <class T> using ProdKernel = ReduceKernel<T, T, ProdReducer<T>>;

REGISTER_USER_OP("reduce_prod")
    .With(reduceDefinition(inferReduce))
    .Doc(std::string("The product over the given axes. ") + kAxisDoc +
         "Floats multiply in f64; integers wrap around. The product of nothing is 1.")
    .Cases(reduceCases(0.5, 1.5))
    .Kernel<ProdKernel, types::Numbers>("input_tensor", reduceKernel());

} // namespace
} // namespace opc::ops::reduce
