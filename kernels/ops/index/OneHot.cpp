// one_hot: indices as unit vectors.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexOnGpu.h"
#include "support/ElementBytes.h"
#include "support/FunctionKernel.h"
#include "support/Operator.h"

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  JUST(checkIndexType(ctx, "indices"));
  const int64_t depth = ctx->Attr<int64_t>("depth");
  if (depth <= 0) return (Error("OPC0205") << "depth is " << depth).help("depth is the number of classes, 1 or more");
  const DataType type = ctx->Attr<DataType>("dtype");
  if (!isTensorDataType(type))
    return Error::TypeError() << "dtype is " << DataType_Name(type) << ", which tensors cannot have";
  DimVector dims = ctx->In("indices").shape().dim_vec();
  dims.push_back(depth);
  return setOut(ctx, "out", TensorDesc(Shape(dims), type));
}

std::unique_ptr<BoundKernel> bindOneHot(KernelBindContext *ctx) {
  const Tensor &indices = ctx->In("indices");
  const Shape shape = indices.shape();
  const PieceRange range = pieceRange(ctx, "out", shape.NumAxes());
  const int64_t depth = range.size, n = shape.elem_cnt();
  const DataType type = ctx->Attr<DataType>("dtype");
  const uint64_t on = elementBits(type, ctx->Attr<double>("floating_on_value"), ctx->Attr<int64_t>("integer_on_value")),
                 off = elementBits(type, ctx->Attr<double>("floating_off_value"),
                                   ctx->Attr<int64_t>("integer_off_value"));
  void *to = ctx->Out("out").mut_raw_dptr();
  if (isOnGpu(ctx)) {
    RowIndices rows{};
    rows.data = indices.raw_dptr();
    rows.fault = watchIndices(ctx, "indices", shape, range.whole, "the classes");
    rows.outer = rows.width = 1;
    rows.n = n;
    rows.rows = depth;
    rows.isWide = indices.data_type() == kInt64;
    rows.begin[0] = range.begin;
    rows.size[0] = depth;
    rows.whole[0] = range.whole;
    rows.strides[0] = 1;
    return bindLaunch(ctx, kernelOf("one_hot", GetSizeOfDataType(type)), n * depth, rows, on, off, to);
  }
  return withIndices(indices, [&](const auto *index) {
    return withElementSize(GetSizeOfDataType(type), [&](auto tag) {
      using T = decltype(tag);
      const T onValue = static_cast<T>(on), offValue = static_cast<T>(off);
      return bindTask([=](DeviceCtx *dev) {
        checkIndices(dev, index, shape, range.whole, "indices", "the classes");
        dev->parallelFor(n, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, depth)), [&](int64_t b, int64_t e) {
          T *out = static_cast<T *>(to);
          std::fill(out + b * depth, out + e * depth, offValue);
          for (int64_t i = b; i < e; ++i)
            if (const int64_t place = range.place(index[i]); range.holds(place)) out[i * depth + place] = onValue;
        });
      });
    });
  });
}

Case sample(const char *name, DataType index, Shape shape, DataType type) {
  return Case(name)
      .In("indices", index, shape, 0, 5)
      .Attr<int64_t>("depth", 5)
      .Attr("dtype", type)
      .Attr("floating_on_value", 1.0)
      .Attr("floating_off_value", 0.0)
      .Attr<int64_t>("integer_on_value", 1)
      .Attr<int64_t>("integer_off_value", 0);
}

REGISTER_USER_OP("one_hot")
    .With(TensorArgs{{"indices"}, {"out"}})
    .RequiredAttr<int64_t>("depth")
    .Attr<double>("floating_on_value", 1.0)
    .Attr<int64_t>("integer_on_value", 1)
    .Attr<double>("floating_off_value", 0.0)
    .Attr<int64_t>("integer_off_value", 0)
    .RequiredAttr<DataType>("dtype")
    .With(rules(infer, "... -> ... classes"))
    .NoGrad("indices are not differentiable")
    .Doc("A last axis of `depth` entries is added: the on value at the index (i32 or i64), the off value elsewhere. "
         "An index outside [0, depth) is an error at run time.")
    .Cases({sample("float", kInt64, {2, 3}, kFloat), sample("int", kInt32, {4}, kInt64),
            sample("scalar", kInt64, {}, kFloat16)})
    .With(onCpuAndGpu<FunctionKernel<bindOneHot>>());

} // namespace
} // namespace opc::ops
