// cat, concat and stack: tensors laid one after another along an axis; split_like: the inverse.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/CpuKernels.h"
#include "support/StridedCopy.h"

#include <numeric>

namespace opc::ops {
namespace {

int32_t inputCount(const user_op::OpContext *ctx, const std::string &arg = "in") { return ctx->input_size(arg); }

Maybe<void> sameType(const InferContext *ctx, int32_t i) {
  if (ctx->InputDType("in", i) != ctx->InputDType("in", 0))
    return (Error::TypeError() << "in_" << i << " is " << dataTypeName(ctx->InputDType("in", i)) << ", in_0 is "
                               << dataTypeName(ctx->InputDType("in", 0)))
        .help("cast the inputs to one dtype");
  return Maybe<void>::Ok();
}

Maybe<void> inferCat(InferContext *ctx) {
  const Shape first = ctx->InputShape("in", 0);
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("axis"), first.NumAxes()));
  int64_t total = 0;
  for (int32_t i = 0; i < inputCount(ctx); ++i) {
    const Shape &s = ctx->InputShape("in", i);
    JUST(sameType(ctx, i));
    bool fits = s.NumAxes() == first.NumAxes();
    for (int64_t k = 0; fits && k < s.NumAxes(); ++k) fits = k == axis || s.At(k) == first.At(k);
    if (!fits)
      return (Error::ShapeMismatch() << "in_" << i << " is " << s.ToString() << ", in_0 is " << first.ToString()
                                     << ", joined along axis " << axis)
          .help("all dimensions but the joined one must be equal");
    if (__builtin_add_overflow(total, s.At(axis), &total))
      return Error("OPC0206") << "the joined dimension overflows 63 bits";
  }
  const int64_t limit = ctx->Attr<int64_t>("max_dim_size");
  if (limit > 0 && total > limit)
    return (Error::ShapeMismatch() << "the joined dimension is " << total << ", max_dim_size is " << limit)
        .help("raise max_dim_size, or leave it out");
  Shape out = first;
  out.Set(axis, total);
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(out, ctx->InputDType("in", 0));
  return Maybe<void>::Ok();
}

Maybe<void> inferStack(InferContext *ctx) {
  const Shape first = ctx->InputShape("in", 0);
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("axis"), first.NumAxes() + 1));
  for (int32_t i = 0; i < inputCount(ctx); ++i) {
    JUST(sameType(ctx, i));
    if (ctx->InputShape("in", i) != first)
      return (Error::ShapeMismatch() << "in_" << i << " is " << ctx->InputShape("in", i).ToString() << ", in_0 is "
                                     << first.ToString())
          .help("stack joins tensors of one shape; cat joins tensors that differ along the axis");
  }
  DimVector dims = first.dim_vec();
  dims.insert(dims.begin() + axis, inputCount(ctx));
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(Shape(dims), ctx->InputDType("in", 0));
  return Maybe<void>::Ok();
}

Maybe<void> inferSplitLike(InferContext *ctx) {
  const TensorDesc in = *ctx->TensorDesc4ArgNameAndIndex("in", 0);
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("axis"), in.shape().NumAxes()));
  const int32_t n = ctx->input_size("like");
  if (ctx->output_size("out") != n)
    return (Error("OPC0202") << "out has " << ctx->output_size("out") << " tensors, like has " << n)
        .help("give one output for each like");
  int64_t total = 0;
  for (int32_t i = 0; i < n; ++i) {
    const Shape &like = ctx->InputShape("like", i);
    if (like.NumAxes() <= axis)
      return Error::ShapeMismatch() << "like_" << i << " is " << like.ToString() << ", which has no axis " << axis;
    Shape out = in.shape();
    out.Set(axis, like.At(axis));
    total += like.At(axis);
    *ctx->TensorDesc4ArgNameAndIndex("out", i) = TensorDesc(out, in.data_type());
  }
  if (total != in.shape().At(axis))
    return Error::ShapeMismatch() << "axis " << axis << " of in " << in.shape().ToString() << " is cut into parts of "
                                  << total << " entries in all";
  return Maybe<void>::Ok();
}

/// Copies each part to (or, split, from) its place along the axis of the whole.
class JoinKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const bool split = ctx->has_output("out", 1) || ctx->user_op_conf().input_size("like") > 0;
    const std::string partArg = split ? "out" : "in";
    const Shape whole =
        split ? ctx->Tensor4ArgNameAndIndex("in", 0)->shape() : ctx->Tensor4ArgNameAndIndex("out", 0)->shape();
    const DataType type = ctx->Tensor4ArgNameAndIndex("in", 0)->data_type();
    const int64_t size = static_cast<int64_t>(GetSizeOfDataType(type));
    const int64_t axis = valueOf(resolveAxis(ctx->Attr<int64_t>("axis"), whole.NumAxes()));
    const int32_t n = split ? ctx->output_size("out") : ctx->input_size("in");
    const int64_t outer = whole.Count(0, axis), wholeRow = whole.Count(axis);
    struct Part {
      StridedCopy copy;
      const char *src;
      char *dst;
    };
    std::vector<Part> parts;
    int64_t at = 0;
    for (int32_t i = 0; i < n; ++i) {
      const Tensor *part = ctx->Tensor4ArgNameAndIndex(partArg, i);
      const int64_t row = outer == 0 ? 0 : part->shape().elem_cnt() / outer;
      if (split) {
        const char *src = static_cast<const char *>(ctx->Tensor4ArgNameAndIndex("in", 0)->raw_dptr()) + at * size;
        parts.push_back({StridedCopy(static_cast<size_t>(size), {outer, row}, {wholeRow, 1}, {row, 1}), src,
                         static_cast<char *>(ctx->Tensor4ArgNameAndIndex("out", i)->mut_raw_dptr())});
      } else {
        char *dst = static_cast<char *>(ctx->Tensor4ArgNameAndIndex("out", 0)->mut_raw_dptr()) + at * size;
        parts.push_back({StridedCopy(static_cast<size_t>(size), {outer, row}, {row, 1}, {wholeRow, 1}),
                         static_cast<const char *>(part->raw_dptr()), dst});
      }
      at += row;
    }
    return user_op::bindTask([parts = std::move(parts)](DeviceCtx *dev) {
      for (const Part &p : parts) p.copy.run(dev, p.src, p.dst);
    });
  }
};

/// Every axis but the joined one may be split, and the joined tensors may all be partial sums.
template <int kAxisShift> Maybe<void> joinSbp(user_op::SbpContext *ctx) {
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("in", 0).shape().NumAxes();
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("axis"), rank + kAxisShift));
  for (int64_t a = 0; a < rank; ++a) {
    if (!kAxisShift && a == axis) continue;
    const int64_t outAxis = kAxisShift && a >= axis ? a + 1 : a;
    ctx->NewBuilder().Split(ctx->inputs(), a).Split(ctx->outputs(), outAxis).Build();
  }
  ctx->NewBuilder().PartialSum(ctx->inputs()).PartialSum(ctx->outputs()).Build();
  return Maybe<void>::Ok();
}
Maybe<void> splitSbp(user_op::SbpContext *ctx) {
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("in", 0).shape().NumAxes();
  const int64_t axis = JUST(resolveAxis(ctx->Attr<int64_t>("axis"), rank));
  for (int64_t a = 0; a < rank; ++a)
    if (a != axis) ctx->NewBuilder().Split(ctx->inputs(), a).Split(ctx->outputs(), a).Build();
  // The values of like are not read: it may be in any state.
  ctx->NewBuilder().PartialSum(ctx->inputs()).PartialSum(ctx->outputs()).Build();
  ctx->NewBuilder().Broadcast(ctx->inputs()).PartialSum(user_op::OpArg("in", 0)).PartialSum(ctx->outputs()).Build();
  ctx->NewBuilder().PartialSum(ctx->inputs()).Broadcast(user_op::OpArg("in", 0)).Broadcast(ctx->outputs()).Build();
  return Maybe<void>::Ok();
}

const std::vector<DataType> kSampleTypes = {kFloat, kDouble, kFloat16, kUInt8, kInt64, kBool};
std::vector<user_op::Case> catCases() {
  return {user_op::Case("axis0").In("in", {2, 3}, 0, 2, 0).In("in", {4, 3}, 0, 2, 1).Types(kSampleTypes),
          user_op::Case("axis1")
              .In("in", {2, 3}, 0, 2, 0)
              .In("in", {2, 1}, 0, 2, 1)
              .In("in", {2, 4}, 0, 2, 2)
              .Attr<int64_t>("axis", -1)
              .Types(kSampleTypes),
          user_op::Case("empty_part")
              .In("in", {2, 0}, 0, 2, 0)
              .In("in", {2, 3}, 0, 2, 1)
              .Attr<int64_t>("axis", 1)
              .Types(kSampleTypes)};
}
const char *const kCatDoc = "Joins the inputs, in order, along `axis`; their other dimensions must be equal. "
                            "max_dim_size, when above 0, bounds the joined dimension.";

REGISTER_USER_OP("cat")
    .InputWithMinimum("in", 1)
    .Output("out")
    .Attr<int64_t>("axis", 0)
    .Attr<int64_t>("max_dim_size", 0)
    .SetTensorDescInferFn(inferCat)
    .SetGetSbpFn(joinSbp<0>)
    .Doc(kCatDoc)
    .Cases(catCases());

REGISTER_USER_OP("concat")
    .InputWithMinimum("in", 2)
    .Output("out")
    .Attr<int64_t>("axis", 0)
    .Attr<int64_t>("max_dim_size", 0)
    .SetTensorDescInferFn(inferCat)
    .SetGetSbpFn(joinSbp<0>)
    .Doc(std::string(kCatDoc) + " The older name of cat, for at least two inputs.")
    .Cases(catCases());

REGISTER_USER_OP("stack")
    .InputWithMinimum("in", 1)
    .Output("out")
    .Attr<int64_t>("axis", 0)
    .Attr<int64_t>("max_dim_size", 0)
    .SetTensorDescInferFn(inferStack)
    .SetGetSbpFn(joinSbp<1>)
    .Doc("Joins inputs of one shape along a new axis `axis` of the output. max_dim_size is accepted and has no effect.")
    .Cases({user_op::Case("front").In("in", {2, 3}, 0, 2, 0).In("in", {2, 3}, 0, 2, 1).Types(kSampleTypes),
            user_op::Case("back")
                .In("in", {2, 3}, 0, 2, 0)
                .In("in", {2, 3}, 0, 2, 1)
                .Attr<int64_t>("axis", -1)
                .Types(kSampleTypes),
            user_op::Case("scalars")
                .In("in", {}, 0, 2, 0)
                .In("in", {}, 0, 2, 1)
                .In("in", {}, 0, 2, 2)
                .Types(kSampleTypes)});

REGISTER_USER_OP("split_like")
    .Input("in")
    .InputWithMinimum("like", 1)
    .OutputWithMinimum("out", 1)
    .Attr<int64_t>("axis", 0)
    .SetTensorDescInferFn(inferSplitLike)
    .SetGetSbpFn(splitSbp)
    .Doc("Cuts `in` along `axis` into consecutive parts; part i is as long as like_i is along that axis. The values "
         "of like are not read. The inverse of cat.")
    .Cases({user_op::Case("axis1")
                .In("in", {2, 7}, 0, 2)
                .In("like", {2, 3}, 0, 2, 0)
                .In("like", {2, 4}, 0, 2, 1)
                .Attr<int64_t>("axis", 1)
                .Out("out", 2)
                .Types(kSampleTypes)});

OPC_ANY_TYPE_CPU_KERNEL("cat", JoinKernel);
OPC_ANY_TYPE_CPU_KERNEL("concat", JoinKernel);
OPC_ANY_TYPE_CPU_KERNEL("stack", JoinKernel);
OPC_ANY_TYPE_CPU_KERNEL("split_like", JoinKernel);

} // namespace
} // namespace opc::ops
