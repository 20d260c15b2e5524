// bit_cast: the same bits as elements of another type.
// SPDX-License-Identifier: Apache-2.0
#include "support/FunctionKernel.h"
#include "support/Operator.h"
#include "support/StridedCopy.h"

#include "opc/PackedElements.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  const DataType to = ctx->Attr<DataType>("dtype");
  if (to == kBool && in.data_type() != kBool)
    return Error::TypeError().help("compare with 0: broadcast_not_equal")
           << "dtype is bool, and the bytes of in, which is " << in.toString() << ", may be others than 0 and 1";
  if (GetSizeOfDataType(to) != GetSizeOfDataType(in.data_type()))
    return Error::TypeError().help("choose a type of the same size, or cast, which converts the values")
           << "dtype " << dataTypeName(to) << " has " << GetSizeOfDataType(to) << " bytes, and in is " << in.toString()
           << ", of " << GetSizeOfDataType(in.data_type());
  if (to != in.data_type() && (isPackedInFiles(to) || isPackedInFiles(in.data_type())))
    return Error::TypeError().help("cast: to an integer of fewer bits it keeps the low bits")
           << "dtype is " << dataTypeName(to) << " and in is " << in.toString()
           << ", of which one has less than a byte for an element";
  return setOut(ctx, "out", TensorDesc(in.shape(), to));
}

/// Of any numbers but NaN, whose bits need not stay where they are drawn.
Case to(const char *name, DataType type, std::vector<DataType> from) {
  return Case(name).In("in", {3, 5}, 0, 100).Attr("dtype", type).Types(std::move(from));
}

// The pieces of a sum have other bits than it: only whole elements may be elsewhere.
REGISTER_USER_OP("bit_cast")
    .With(TensorArgs{{"in"}, {"out"}})
    .RequiredAttr<DataType>("dtype")
    .With(rules(infer, "... -> ..."))
    .NoGrad("the bits of a number are no smooth function of it")
    .Doc("out has the bits of in as elements of dtype, which has as many bytes as the type of in. dtype is bool only "
         "where in is.")
    .Cases({to("to_i32", kInt32, {kFloat, kUInt32, kInt32}), to("to_i64", kInt64, {kDouble, kUInt64}),
            to("to_u8", kUInt8, {kInt8, kBool}), to("to_u16", kUInt16, {kFloat16, kBFloat16, kInt16}),
            Case("to_f32").In("in", kInt32, {4, 3}, 0, 1 << 30).Attr("dtype", kFloat),
            Case("scalar").In("in", kFloat, {}, -1, 1).Attr("dtype", kUInt32),
            Case("empty").In("in", kDouble, {0, 2}, -1, 1).Attr("dtype", kInt64)})
    .With(onCpuAndGpu<FunctionKernel<bindView>>(KernelOptions().Inplace("out", "in")));

} // namespace
} // namespace opc::ops
