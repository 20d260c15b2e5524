// reduce_sum, reduce_mean and reduce_nansum.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/ReduceOp.h"

namespace opc::ops::reduce {
namespace {

template <class T> struct MeanReducer : SumReducer<T> {
  static constexpr bool kMean = true;
};
template <class T> struct NanSumReducer : SumReducer<T> {
  using typename SumReducer<T>::Load;
  using typename SumReducer<T>::Lane;
  Lane step(Lane a, Load x, double) const { return a + (x == x ? static_cast<Lane>(x) : Lane(0)); }
};

template <class T> using SumKernel = ReduceKernel<T, T, SumReducer<T>>;
template <class T> using MeanKernel = ReduceKernel<T, T, MeanReducer<T>>;
template <class T> using NanSumKernel = ReduceKernel<T, T, NanSumReducer<T>>;

Maybe<void> inferMean(InferContext *ctx) {
  const DataType t = ctx->In("input_tensor").data_type();
  if (!IsFloatingDataType(t))
    return (Error::TypeError() << "the mean of " << dataTypeName(t) << " is no " << dataTypeName(t))
        .help("cast the input to a floating dtype");
  return inferReduce(ctx);
}

REGISTER_USER_OP("reduce_sum")
    .With(reduceDefinition(inferReduce, Pieces::kLinear))
    .Doc(std::string("The sum over the given axes. ") + kAxisDoc +
         "Floating sums are blocked, with f64 between blocks; f16 and bf16 accumulate in f32. Integers wrap around. "
         "The sum of nothing is 0.")
    .Cases(reduceCases())
    .Kernel<SumKernel, types::Numbers>("input_tensor", reduceKernel());

REGISTER_USER_OP("reduce_mean")
    .With(reduceDefinition(inferMean, Pieces::kLinear))
    .Doc(std::string("The mean over the given axes, of floating tensors. ") + kAxisDoc +
         "Accumulated as reduce_sum does. The mean of nothing is NaN.")
    .Cases(reduceCases())
    .Kernel<MeanKernel, types::Floating>("input_tensor", reduceKernel());

REGISTER_USER_OP("reduce_nansum")
    .With(reduceDefinition(inferReduce, Pieces::kAddUp))
    .Doc(std::string("The sum over the given axes of the elements that are not NaN. ") + kAxisDoc +
         "Accumulated as reduce_sum does.")
    .Cases(reduceCases())
    .Kernel<NanSumKernel, types::Floating>("input_tensor", reduceKernel());

} // namespace
} // namespace opc::ops::reduce
