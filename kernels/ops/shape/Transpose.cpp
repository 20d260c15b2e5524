// transpose: permutes the axes.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/CpuKernels.h"
#include "support/SbpRules.h"
#include "support/StridedCopy.h"

namespace opc::ops {
namespace {

Maybe<std::vector<int64_t>> resolvePerm(const std::vector<int32_t> &perm, int64_t rank) {
  if (static_cast<int64_t>(perm.size()) != rank)
    return (Error("OPC0205") << "perm has " << perm.size() << " entries, the input has rank " << rank)
        .help("perm[i] is the input axis that becomes output axis i; list every axis once");
  std::vector<int64_t> out;
  for (int32_t p : perm) out.push_back(JUST(resolveAxis(p, rank, "perm")));
  JUST(resolveAxes(perm, rank, "perm"));
  return out;
}

Maybe<void> infer(InferContext *ctx) {
  const Shape &in = ctx->InputShape("input", 0);
  const auto perm = JUST(resolvePerm(ctx->Attr<std::vector<int32_t>>("perm"), in.NumAxes()));
  DimVector dims;
  for (int64_t p : perm) dims.push_back(in.At(p));
  *ctx->TensorDesc4ArgNameAndIndex("output", 0) = TensorDesc(Shape(dims), ctx->InputDType("input", 0));
  return Maybe<void>::Ok();
}

Maybe<void> sbp(user_op::SbpContext *ctx) {
  const Shape &in = ctx->LogicalTensorDesc4InputArgNameAndIndex("input", 0).shape();
  const auto perm = JUST(resolvePerm(ctx->Attr<std::vector<int32_t>>("perm"), in.NumAxes()));
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t i = 0; i < perm.size(); ++i) pairs.push_back({perm[i], static_cast<int64_t>(i)});
  addAxisSignatures(ctx, "input", "output", pairs, true);
  return Maybe<void>::Ok();
}

class TransposeKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *in = ctx->Tensor4ArgNameAndIndex("input", 0);
    Tensor *out = ctx->Tensor4ArgNameAndIndex("output", 0);
    const auto perm = valueOf(resolvePerm(ctx->Attr<std::vector<int32_t>>("perm"), in->shape().NumAxes()));
    const DimVector strides = rowMajorStrides(in->shape());
    DimVector src;
    for (int64_t p : perm) src.push_back(strides[static_cast<size_t>(p)]);
    StridedCopy copy(GetSizeOfDataType(in->data_type()), out->shape().dim_vec(), src);
    const void *from = in->raw_dptr();
    void *to = out->mut_raw_dptr();
    return user_op::bindTask([=](DeviceCtx *dev) { copy.run(dev, from, to); });
  }
};

user_op::Case sample(const char *name, Shape in, std::vector<int32_t> perm) {
  return user_op::Case(name)
      .In("input", in, 0, 2)
      .Attr("perm", perm)
      .Types({kFloat, kDouble, kFloat16, kUInt8, kInt64, kBool});
}

REGISTER_USER_OP("transpose")
    .Input("input")
    .Output("output")
    .RequiredAttr<std::vector<int32_t>>("perm")
    .Attr<bool>("batch_axis_non_change", false)
    .SetTensorDescInferFn(infer)
    .SetGetSbpFn(sbp)
    .Doc("output[i_perm[0], i_perm[1], ...] = input[i_0, i_1, ...]: output axis k is input axis perm[k]. Negative "
         "entries count from the end. batch_axis_non_change is accepted from older graphs and has no effect.")
    .Cases({sample("matrix", {5, 7}, {1, 0}), sample("heads", {2, 3, 4, 5}, {0, 2, 1, 3}),
            sample("large", {67, 130}, {1, 0}), sample("channels_last", {2, 3, 5, 4}, {0, 2, 3, -3}),
            sample("scalar", {}, {})});

OPC_ANY_TYPE_CPU_KERNEL("transpose", TransposeKernel);

} // namespace
} // namespace opc::ops
