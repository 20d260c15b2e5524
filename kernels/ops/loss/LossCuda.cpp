// Losses element by element, and those of one class in each row, on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "loss/LossArguments.h"
#include "loss/LossRows.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"
#include "support/IndexWatch.h"

namespace opc::ops::loss {
namespace {

const void *given(KernelBindContext *ctx, const char *arg) { return ctx->Has(arg) ? ctx->In(arg).raw_dptr() : nullptr; }

LossArguments elements(KernelBindContext *ctx) {
  LossArguments a{};
  a.n = ctx->In("input").shape().elem_cnt();
  a.posCount = 1;
  a.input = ctx->In("input").raw_dptr();
  a.target = ctx->In("target").raw_dptr();
  a.out = ctx->Out("out").mut_raw_dptr();
  return a;
}
std::unique_ptr<BoundKernel> bindElements(KernelBindContext *ctx, const LossArguments &a) {
  return bindLaunch(ctx, kernelOf(ctx->op_type_name(), ctx->In("input").data_type()), a.n, a);
}
std::unique_ptr<BoundKernel> bindCrossEntropy(KernelBindContext *ctx) {
  LossArguments a = elements(ctx);
  a.weight = given(ctx, "weight");
  a.pos = given(ctx, "pos_weight");
  if (a.pos) a.posCount = ctx->In("pos_weight").shape().elem_cnt();
  return bindElements(ctx, a);
}
std::unique_ptr<BoundKernel> bindSmoothL1(KernelBindContext *ctx) {
  LossArguments a = elements(ctx);
  a.beta = static_cast<double>(ctx->Attr<float>("beta"));
  return bindElements(ctx, a);
}
std::unique_ptr<BoundKernel> bindKlDiv(KernelBindContext *ctx) {
  LossArguments a = elements(ctx);
  a.isLogTarget = ctx->Attr<bool>("log_target");
  return bindElements(ctx, a);
}

/// What an op over rows is called: the arguments of its classes, labels, gradient and results.
struct ClassNames {
  const char *classes, *label, *dy, *out, *outWeight;
  bool ignores;
};
template <const ClassNames &names> std::unique_ptr<BoundKernel> bindClasses(KernelBindContext *ctx) {
  const Tensor &label = ctx->In(names.label);
  const Shape &full = ctx->Desc(names.classes).shape();
  const PieceRange range = pieceRange(ctx, names.classes, full.NumAxes() - 1);
  ClassArguments a{};
  a.in = ctx->In(names.classes).raw_dptr();
  a.labels = label.raw_dptr();
  a.weight = given(ctx, "weight");
  if (names.dy) a.dy = ctx->In(names.dy).raw_dptr();
  a.out = ctx->Out(names.out).mut_raw_dptr();
  if (names.outWeight) a.outWeight = ctx->Out(names.outWeight).mut_raw_dptr();
  a.rows = label.shape().elem_cnt();
  a.classes = range.size;
  a.begin = range.begin;
  a.whole = range.whole;
  a.hasIgnored = names.ignores;
  if (names.ignores) a.ignored = ctx->Attr<int64_t>("ignore_index");
  a.isWide = label.data_type() == kInt64;
  const Shape shape = label.shape();
  a.fault =
      cuda::CudaLaunch::of(ctx->device_ctx())
          .watch(*ctx, names.label, [shape, whole = a.whole, ignored = a.ignored](int64_t position, int64_t value) {
            std::string text = outsideText(names.label, shape, position, value, whole, "the classes");
            if (names.ignores) text += ", and is not ignore_index (" + std::to_string(ignored) + ")";
            return text;
          });
  return bindLaunch(ctx, kernelOf(ctx->op_type_name(), ctx->In(names.classes).data_type()),
                    names.dy ? a.rows * a.classes : a.rows, a);
}
constexpr ClassNames kSparse{"prediction", "label", nullptr, "out", nullptr, false},
    kSparseGrad{"prediction", "label", "dy", "prediction_diff", nullptr, false},
    kNll{"input", "target", nullptr, "output", "out_weight", true},
    kNllGrad{"input", "target", "out_grad", "in_grad", nullptr, true};

REGISTER_KERNELS("binary_cross_entropy")
    .Kernel<OfFunction<bindCrossEntropy>::Kernel, types::Floating>("input", onGpu());
REGISTER_KERNELS("binary_cross_entropy_with_logits")
    .Kernel<OfFunction<bindCrossEntropy>::Kernel, types::Floating>("input", onGpu());
REGISTER_KERNELS("smooth_l1_loss").Kernel<OfFunction<bindSmoothL1>::Kernel, types::Floating>("input", onGpu());
REGISTER_KERNELS("kl_div_loss").Kernel<OfFunction<bindKlDiv>::Kernel, types::Floating>("input", onGpu());
REGISTER_KERNELS("sparse_cross_entropy")
    .Kernel<OfFunction<bindClasses<kSparse>>::Kernel, types::Floating>("prediction", onGpu());
REGISTER_KERNELS("sparse_cross_entropy_grad")
    .Kernel<OfFunction<bindClasses<kSparseGrad>>::Kernel, types::Floating>("prediction", onGpu());
REGISTER_KERNELS("nll").Kernel<OfFunction<bindClasses<kNll>>::Kernel, types::Floating>("input", onGpu());
REGISTER_KERNELS("nll_grad").Kernel<OfFunction<bindClasses<kNllGrad>>::Kernel, types::Floating>("out_grad", onGpu());

} // namespace
} // namespace opc::ops::loss
