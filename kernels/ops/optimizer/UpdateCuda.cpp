// The updates of models on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "JoiningTask.h"
#include "optimizer/UpdateArguments.h"
#include "optimizer/UpdateOp.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"

namespace opc::ops::optimizer {
namespace {

DeviceScalar scalarOf(KernelBindContext *ctx, const char *arg, double otherwise) {
  if (!ctx->Has(arg)) return {nullptr, 0, 0, otherwise};
  const DataType type = ctx->In(arg).data_type();
  return {ctx->In(arg).raw_dptr(), type == kDouble ? 1 : type == kInt64 ? 2 : 0, 0, otherwise};
}
int32_t kindOf(DataType type) { return type == kFloat16 ? 1 : type == kBFloat16 ? 2 : 0; }
void *written(KernelBindContext *ctx, const char *arg) { return ctx->Out(arg).mut_raw_dptr(); }

/// What the regularised gradient is made of.
UpdateArguments gradientOf(KernelBindContext *ctx) {
  UpdateArguments a{};
  a.n = ctx->In("model").shape().elem_cnt();
  a.diff = ctx->In("model_diff").raw_dptr();
  a.diffKind = kindOf(ctx->In("model_diff").data_type());
  a.scaleBy = scalarOf(ctx, "scale_by_tensor", 1);
  a.scale = ctx->Attr<double>("scale");
  a.l1 = real(ctx, "l1");
  a.l2 = real(ctx, "l2");
  return a;
}
UpdateArguments common(KernelBindContext *ctx) {
  UpdateArguments a = gradientOf(ctx);
  a.model = written(ctx, "model");
  if (ctx->Has("model_copy")) {
    a.copy = written(ctx, "model_copy");
    a.copyKind = kindOf(ctx->In("model_copy").data_type());
  }
  if (ctx->Has("skip_if")) a.skipIf = static_cast<const int64_t *>(ctx->In("skip_if").raw_dptr());
  a.rate = scalarOf(ctx, "learning_rate", real(ctx, "learning_rate_val"));
  a.rateScale = real(ctx, "learning_rate_scale");
  a.weightDecay = real(ctx, "weight_decay");
  return a;
}
void addMomentum(KernelBindContext *ctx, UpdateArguments *a) {
  a->momentum = written(ctx, "momentum");
  a->beta = real(ctx, "beta");
  // Rounded as on the CPU, where both are of the model's type.
  a->keep = ctx->In("model").data_type() == kFloat ? static_cast<double>(1.0f - ctx->Attr<float>("dampening"))
                                                   : 1 - real(ctx, "dampening");
  a->nesterov = ctx->Attr<bool>("nesterov");
  a->maximize = ctx->Attr<bool>("maximize");
}
void addMoments(KernelBindContext *ctx, UpdateArguments *a) {
  a->beta1 = real(ctx, "beta1");
  a->beta2 = real(ctx, "beta2");
  a->rest1 = 1 - a->beta1;
  a->rest2 = 1 - a->beta2;
  a->epsilon = real(ctx, "epsilon");
  a->correction1 = a->correction2 = {nullptr, 0, 0, 1};
  if (!ctx->Attr<bool>("do_bias_correction")) return;
  a->correction1 = scalarOf(ctx, "bias_correction1", real(ctx, "bias_correction1_val"));
  a->correction2 = scalarOf(ctx, "bias_correction2", real(ctx, "bias_correction2_val"));
}
std::unique_ptr<BoundKernel> bindUpdate(KernelBindContext *ctx, const UpdateArguments &a) {
  return bindLaunch(ctx, kernelOf(ctx->op_type_name(), ctx->In("model").data_type()), a.n, a);
}

/// The updates of a table in one launch.
class TableTask final : public BoundKernel {
public:
  explicit TableTask(cuda::CudaFunction kernel) : kernel_(kernel) {}
  bool isFull() const { return table_.count == UpdateTable::kMost; }
  void add(const UpdateArguments &a) {
    chunks_ += (a.n + UpdateTable::kChunk - 1) / UpdateTable::kChunk;
    table_.ends[table_.count] = chunks_;
    table_.updates[table_.count++] = a;
  }
  void Run(DeviceCtx *ctx) override {
    void *arguments[] = {&table_, nullptr};
    cuda::CudaLaunch::of(ctx).launch(kernel_, cuda::blocksFor(chunks_ * cuda::kBlock), {cuda::kBlock, 1, 1}, 0,
                                     arguments);
  }

private:
  cuda::CudaFunction kernel_;
  UpdateTable table_{};
  int64_t chunks_ = 0;
};

/// One update, which other ones can join.
class UpdateTask final : public cuda::JoiningTask {
public:
  UpdateTask(KernelBindContext *ctx, const UpdateArguments &a)
      : table_(kernelOf(ctx->op_type_name() + "s", ctx->In("model").data_type())), arguments_(a),
        alone_(bindUpdate(ctx, a)) {}

  void Run(DeviceCtx *ctx) override { alone_->Run(ctx); }
  std::string group() const override { return table_; }
  std::unique_ptr<BoundKernel> join(const std::vector<const JoiningTask *> &tasks, DeviceCtx *ctx) const override {
    const cuda::CudaFunction kernel = cuda::CudaLaunch::of(ctx).function(table_);
    std::vector<std::shared_ptr<TableTask>> launches;
    for (const JoiningTask *task : tasks) {
      const UpdateArguments &a = static_cast<const UpdateTask *>(task)->arguments_;
      if (a.n == 0) continue;
      if (launches.empty() || launches.back()->isFull()) launches.push_back(std::make_shared<TableTask>(kernel));
      launches.back()->add(a);
    }
    return bindTask([launches](DeviceCtx *dev) {
      for (const auto &launch : launches) launch->Run(dev);
    });
  }

private:
  const std::string table_; // its kernel for many
  const UpdateArguments arguments_;
  const std::unique_ptr<BoundKernel> alone_;
};
std::unique_ptr<BoundKernel> bindJoining(KernelBindContext *ctx, const UpdateArguments &a) {
  return std::make_unique<UpdateTask>(ctx, a);
}

std::unique_ptr<BoundKernel> bindSgd(KernelBindContext *ctx) { return bindJoining(ctx, common(ctx)); }
std::unique_ptr<BoundKernel> bindMomentum(KernelBindContext *ctx) {
  UpdateArguments a = common(ctx);
  addMomentum(ctx, &a);
  return bindJoining(ctx, a);
}
std::unique_ptr<BoundKernel> bindAdam(KernelBindContext *ctx) {
  UpdateArguments a = common(ctx);
  addMoments(ctx, &a);
  a.m = written(ctx, "m");
  a.v = written(ctx, "v");
  if (ctx->Attr<bool>("amsgrad")) a.maxV = written(ctx, "max_v");
  return bindJoining(ctx, a);
}
std::unique_ptr<BoundKernel> bindRmsProp(KernelBindContext *ctx) {
  UpdateArguments a = common(ctx);
  a.beta1 = real(ctx, "decay_rate");
  a.rest1 = 1 - a.beta1;
  a.epsilon = real(ctx, "epsilon");
  a.m = written(ctx, "mean_square");
  if (ctx->Attr<bool>("centered")) a.v = written(ctx, "mean_gradient");
  return bindJoining(ctx, a);
}
std::unique_ptr<BoundKernel> bindAdagrad(KernelBindContext *ctx) {
  UpdateArguments a = common(ctx);
  a.momentum = written(ctx, "sum");
  a.epsilon = real(ctx, "epsilon");
  a.rateDecay = real(ctx, "lr_decay");
  a.step = scalarOf(ctx, "train_step", static_cast<double>(ctx->Attr<int32_t>("train_step_val")));
  return bindJoining(ctx, a);
}
std::unique_ptr<BoundKernel> bindRegularize(KernelBindContext *ctx) {
  UpdateArguments a{};
  a.n = ctx->In("model").shape().elem_cnt();
  a.model = const_cast<void *>(ctx->In("model").raw_dptr());
  a.diff = ctx->In("model_diff").raw_dptr();
  a.copy = written(ctx, "out");
  a.rate = a.scaleBy = {nullptr, 0, 0, 1};
  a.scale = 1;
  a.l1 = real(ctx, "l1");
  a.l2 = real(ctx, "l2");
  return bindUpdate(ctx, a);
}

// --- lamb_update, lars_update, and their norms -----------------------------------------------------------------------

/// Blocks that each sum the squares of some elements: as many as follow from the size of the layer.
int64_t partsOf(int64_t elements) { return std::clamp<int64_t>((elements + 2047) / 2048, 1, 512); }
size_t partsSize(InferContext *ctx) {
  return static_cast<size_t>(partsOf(ctx->In("model").shape().elem_cnt()) + 1) * 2 * sizeof(double);
}

/// Kernel `squares` over the layer, and the sums of its parts.
std::unique_ptr<BoundKernel> bindNorms(KernelBindContext *ctx, const std::string &squares, const UpdateArguments &a) {
  cuda::CudaLaunch &device = cuda::CudaLaunch::of(ctx->device_ctx());
  const cuda::CudaFunction f = device.function(squares), sum = device.function("sum_norms");
  return bindTask([=](DeviceCtx *dev) {
    cuda::CudaLaunch &gpu = cuda::CudaLaunch::of(dev);
    gpu.run(f, {static_cast<uint32_t>(a.parts), 1, 1}, {cuda::kBlock, 1, 1}, 0, a);
    gpu.run(sum, {1, 1, 1}, {cuda::kBlock, 1, 1}, 0, a.partials, a.parts, a.norms);
  });
}
/// Where the sums of squares are, or are to be.
void addLayer(KernelBindContext *ctx, UpdateArguments *a) {
  a->parts = partsOf(a->n);
  a->partials = ctx->Tmp<double>();
  a->norms = a->partials + 2 * a->parts;
  if (ctx->Has("norms")) a->norms = const_cast<double *>(ctx->In("norms").dptr<double>());
}
void *readable(KernelBindContext *ctx, const char *arg) {
  return ctx->Has(arg) ? const_cast<void *>(ctx->In(arg).raw_dptr()) : nullptr;
}

std::unique_ptr<BoundKernel> bindLamb(KernelBindContext *ctx) {
  UpdateArguments a = common(ctx);
  addMoments(ctx, &a);
  addLayer(ctx, &a);
  a.m = written(ctx, "m");
  a.v = written(ctx, "v");
  if (ctx->Has("beta1_t")) a.power1 = written(ctx, "beta1_t");
  if (ctx->Has("beta2_t")) a.power2 = written(ctx, "beta2_t");
  a.takesMoments = ctx->Has("norms");
  const DataType type = ctx->In("model").data_type();
  auto step = bindUpdate(ctx, a);
  if (!a.takesMoments) step = inOrder(bindNorms(ctx, kernelOf("lamb_take", type), a), std::move(step));
  if (!a.power1 && !a.power2) return step;
  return inOrder(bindSingle(ctx, kernelOf("lamb_powers", type), a), std::move(step));
}
std::unique_ptr<BoundKernel> bindLars(KernelBindContext *ctx) {
  UpdateArguments a = common(ctx);
  addLayer(ctx, &a);
  a.momentum = written(ctx, "momentum");
  a.beta = real(ctx, "momentum_beta");
  a.epsilon = real(ctx, "epsilon");
  a.coefficient = real(ctx, "lars_coefficient");
  auto step = bindUpdate(ctx, a);
  if (ctx->Has("norms")) return step;
  return inOrder(bindNorms(ctx, kernelOf("lars_norms", ctx->In("model").data_type()), a), std::move(step));
}
/// lamb_norms and lars_norms.
template <bool kIsLamb> std::unique_ptr<BoundKernel> bindNormsOp(KernelBindContext *ctx) {
  UpdateArguments a = gradientOf(ctx);
  a.model = readable(ctx, "model");
  if (kIsLamb) {
    addMoments(ctx, &a);
    a.m = readable(ctx, "m");
    a.v = readable(ctx, "v");
    a.power1 = readable(ctx, "beta1_t");
    a.power2 = readable(ctx, "beta2_t");
  }
  a.parts = partsOf(a.n);
  a.partials = ctx->Tmp<double>();
  a.norms = ctx->Out("out").mut_dptr<double>();
  return bindNorms(ctx, kernelOf(ctx->op_type_name(), ctx->In("model").data_type()), a);
}

template <auto kBind> class JoiningUpdate final : public BindingKernel, public cuda::JoiningKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override { return kBind(ctx); }
};
template <auto kBind> struct Joining {
  template <class> using Kernel = JoiningUpdate<kBind>;
};
KernelOptions withParts() { return onGpu().TmpSize(partsSize); }

REGISTER_KERNELS("sgd_update").Kernel<Joining<bindSgd>::Kernel, ModelTypes>("model", onGpu());
REGISTER_KERNELS("momentum_update").Kernel<Joining<bindMomentum>::Kernel, ModelTypes>("model", onGpu());
REGISTER_KERNELS("adam_update").Kernel<Joining<bindAdam>::Kernel, ModelTypes>("model", onGpu());
REGISTER_KERNELS("rmsprop_update").Kernel<Joining<bindRmsProp>::Kernel, ModelTypes>("model", onGpu());
REGISTER_KERNELS("adagrad_update").Kernel<Joining<bindAdagrad>::Kernel, ModelTypes>("model", onGpu());
REGISTER_KERNELS("l1_l2_regularize_gradient")
    .Kernel<OfFunction<bindRegularize>::Kernel, ModelTypes>("model", onGpu().Inplace("out", "model_diff"));
REGISTER_KERNELS("lamb_update").Kernel<OfFunction<bindLamb>::Kernel, ModelTypes>("model", withParts());
REGISTER_KERNELS("lars_update").Kernel<OfFunction<bindLars>::Kernel, ModelTypes>("model", withParts());
REGISTER_KERNELS("lamb_norms").Kernel<OfFunction<bindNormsOp<true>>::Kernel, ModelTypes>("model", withParts());
REGISTER_KERNELS("lars_norms").Kernel<OfFunction<bindNormsOp<false>>::Kernel, ModelTypes>("model", withParts());

} // namespace
} // namespace opc::ops::optimizer
