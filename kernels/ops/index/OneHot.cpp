// one_hot: indices as unit vectors.
// SPDX-License-Identifier: Apache-2.0
#include "support/ConvertElements.h"
#include "support/CpuKernels.h"
#include "support/IndexCheck.h"

#include <cstring>

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  JUST(checkIndexType(ctx, "indices"));
  const int64_t depth = ctx->Attr<int64_t>("depth");
  if (depth <= 0) return (Error("OPC0205") << "depth is " << depth).help("depth is the number of classes, 1 or more");
  const DataType type = ctx->Attr<DataType>("dtype");
  if (!isTensorDataType(type))
    return Error::TypeError() << "dtype is " << DataType_Name(type) << ", which tensors cannot have";
  DimVector dims = ctx->InputShape("indices", 0).dim_vec();
  dims.push_back(depth);
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(Shape(dims), type);
  return Maybe<void>::Ok();
}

class OneHotKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *indices = ctx->Tensor4ArgNameAndIndex("indices", 0);
    const Shape shape = indices->shape();
    const IndexRange range = indexRange(ctx, "out", shape.NumAxes());
    const int64_t depth = range.size, n = shape.elem_cnt();
    const DataType type = ctx->Attr<DataType>("dtype");
    uint64_t on = 0, off = 0;
    if (IsFloatingDataType(type)) {
      converter(kDouble, type)(&ctx->Attr<double>("floating_on_value"), &on, 1);
      converter(kDouble, type)(&ctx->Attr<double>("floating_off_value"), &off, 1);
    } else {
      converter(kInt64, type)(&ctx->Attr<int64_t>("integer_on_value"), &on, 1);
      converter(kInt64, type)(&ctx->Attr<int64_t>("integer_off_value"), &off, 1);
    }
    void *to = ctx->Tensor4ArgNameAndIndex("out", 0)->mut_raw_dptr();
    return withIndexType(indices->data_type(), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using I = decltype(tag);
      const I *index = indices->dptr<I>();
      return withElementSize(GetSizeOfDataType(type), [&](auto elementTag) -> std::unique_ptr<user_op::BoundKernel> {
        using T = decltype(elementTag);
        T onValue, offValue;
        std::memcpy(&onValue, &on, sizeof(T));
        std::memcpy(&offValue, &off, sizeof(T));
        return user_op::bindTask([=](DeviceCtx *dev) {
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
};

user_op::Case sample(const char *name, DataType index, Shape shape, DataType type) {
  return user_op::Case(name)
      .In("indices", index, shape, 0, 5)
      .Attr<int64_t>("depth", 5)
      .Attr("dtype", type)
      .Attr("floating_on_value", 1.0)
      .Attr("floating_off_value", 0.0)
      .Attr<int64_t>("integer_on_value", 1)
      .Attr<int64_t>("integer_off_value", 0);
}

REGISTER_USER_OP("one_hot")
    .Input("indices")
    .Output("out")
    .RequiredAttr<int64_t>("depth")
    .Attr<double>("floating_on_value", 1.0)
    .Attr<int64_t>("integer_on_value", 1)
    .Attr<double>("floating_off_value", 0.0)
    .Attr<int64_t>("integer_off_value", 0)
    .RequiredAttr<DataType>("dtype")
    .SetTensorDescInferFn(infer)
    .Sharding("... -> ... classes")
    .NoGrad("indices are not differentiable")
    .Doc("A last axis of `depth` entries is added: the on value at the index (i32 or i64), the off value elsewhere. "
         "An index outside [0, depth) is an error at run time.")
    .Cases({sample("float", kInt64, {2, 3}, kFloat), sample("int", kInt32, {4}, kInt64),
            sample("scalar", kInt64, {}, kFloat16)});

OPC_ANY_TYPE_CPU_KERNEL("one_hot", OneHotKernel);

} // namespace
} // namespace opc::ops
