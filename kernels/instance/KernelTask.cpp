// A kernel tied to the tensors of one task.
// SPDX-License-Identifier: Apache-2.0
#include "KernelTask.h"
#include "BuiltIn.h"
#include "DeviceErrors.h"
#include "HostContexts.h"
#include "MutableInputs.h"
#include "OpeningPlugin.h"
#include "PluginCode.h"
#include "opc/UnalignedInputs.h"

#include <atomic>
#include <dlfcn.h>

namespace opc {

using user_op::KernelDef;
using user_op::OpKernel;
using user_op::Tensor;
using user_op::TensorDesc;

struct KernelTask::Impl {
  Impl(OpInstance instance, const KernelDef &def, DeviceType device)
      : op(std::move(instance)), kernelDef(&def), context(op, device) {}
  OpInstance op;
  const KernelDef *kernelDef;
  HostBindContext context;
  std::unique_ptr<user_op::OpKernel> kernel;
  std::shared_ptr<user_op::OpKernelState> state;
  std::shared_ptr<user_op::OpKernelCache> cache;
  bool skip = false; // all outputs are empty and the kernel does not insist
  // CUDA's runtime, where a plugin has brought it: what it refuses, such as a launch, its kernels need not look at.
  int (*lastCudaError)() = nullptr;
  const char *(*cudaErrorText)(int) = nullptr;
  Status (*boundRun)(user_op::BoundKernel &, DeviceCtx *) = nullptr;

  void findCudaRuntime() {
    for (const char *name : {"libcudart.so.13", "libcudart.so.12"}) {
      void *runtime = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
      if (!runtime) continue;
      lastCudaError = reinterpret_cast<int (*)()>(dlsym(runtime, "cudaGetLastError"));
      cudaErrorText = reinterpret_cast<const char *(*)(int)>(dlsym(runtime, "cudaGetErrorString"));
      if (!cudaErrorText) lastCudaError = nullptr;
      dlclose(runtime); // whoever loaded it keeps it
      return;
    }
  }
  static constexpr int kInvalidConfiguration = 9, kOutOfResources = 701; // of cudaError_t
  Status checkCudaRuntime() const {
    const int error = lastCudaError ? lastCudaError() : 0;
    if (error == 0) return Status::ok();
    return Status(StatusCode::kExecution, "OPC0631",
                  "CUDA's runtime has refused a call of the kernel: " + std::string(cudaErrorText(error)) + " (" +
                      std::to_string(error) + ")")
        .withHelp(error == kInvalidConfiguration || error == kOutOfResources
                      ? "a launch takes at most 1024 threads a block, and as much shared memory as the GPU has; "
                        "cudaGetLastError() behind it says more"
                      : "look at what cudaGetLastError() gives behind each call of the kernel");
  }
  static Status runAndCheck(user_op::BoundKernel &bound, DeviceCtx *ctx) {
    const Impl &impl = *running_->impl_;
    OPC_RETURN_IF_ERROR(impl.boundRun(bound, ctx));
    return impl.checkCudaRuntime();
  }
};

namespace {
constexpr const char *kPreparation = "the preparation of the kernel";

Status named(Status s, const OpInstance &op) {
  if (s.isOk()) return s;
  s = orDeviceError(std::move(s));
  // A contract broken while running is a failed execution, not a bad graph.
  return Status(failureCode(s), s.id().empty() ? "OPC0601" : s.id(), op.def().name + ": " + s.message())
      .withHelp(s.help())
      .withContext("running op " + op.conf().name + " (" + op.def().name + ")");
}
/// A kernel may not change the shape of a tensor: what reads the tensor goes by the shape that the rule has given.
Status checkShapes(const user_op::ArgList &args, const std::vector<TensorDesc> &planned, std::deque<Tensor> *tensors) {
  for (size_t i = 0; i < planned.size(); ++i) {
    Tensor &t = (*tensors)[i];
    if (t.shape() == planned[i].shape()) continue;
    const std::string found = t.shape().ToString();
    *t.mut_shape() = planned[i].shape();
    return Status(StatusCode::kExecution, "OPC0602",
                  "the kernel has set the shape of '" + args[i].first + "' to " + found + "; the shape rule says " +
                      planned[i].shape().ToString() + ", and sizes are fixed before the graph runs")
        .withHelp("fill the whole tensor, and give the true count as an output of its own");
  }
  return Status::ok();
}

} // namespace

thread_local const KernelTask *KernelTask::running_ = nullptr;
thread_local bool KernelTask::followed_ = false;
thread_local bool KernelTask::isNoted_ = false;

bool KernelTask::mayLeaveTo(const KernelTask &next) const {
  return bound_ && next.bound_ && run_ == next.run_ && run_ != user_op::detail::kernelRun;
}

KernelTask::~KernelTask() = default;

void KernelTask::noteNames() {
  isNoted_ = number_ != 0;
  if (runningNames().task == number_) return;
  if (!number_) {
    runningNames().task = 0;
    return;
  }
  const std::string &name = impl_->op.conf().name, &type = impl_->op.def().name;
  const user_op::Origin &origin = impl_->kernelDef->origin;
  runningNames().copy(number_, name, type, origin.library);
  if (!isBuiltIn(origin)) lastPluginNames().copy(number_, name, type, origin.library);
}

std::pair<const char *, const char *> KernelTask::runningOp() noexcept {
  if (!running_) return {nullptr, nullptr};
  if (const KernelNames &names = runningNames(); names.task) return {names.op, names.type};
  return {running_->op().conf().name.c_str(), running_->op().def().name.c_str()};
}

const OpInstance &KernelTask::op() const { return impl_->op; }
const OpKernel *KernelTask::kernel() const { return impl_->kernel.get(); }

bool KernelTask::mayBeUnaligned(const OpInstance &op, const KernelDef &kernel, size_t input) {
  HostCreateContext context(op, DeviceType::kCPU);
  std::unique_ptr<user_op::OpKernel> made;
  if (!kernel.create || kernel.hasState || !kernel.create(&context, &made).isOk()) return false;
  const auto *reader = dynamic_cast<const user_op::UnalignedInputs *>(made.get());
  return reader && reader->MayBeUnaligned(context, op.inputArgs()[input].first);
}

Result<std::unique_ptr<KernelTask>> KernelTask::create(OpInstance &&op, const KernelDef &kernel, DeviceCtx *ctx,
                                                       const std::vector<void *> &data,
                                                       const std::vector<bool> &constant, void *workspace,
                                                       uint64_t workspaceBytes) {
  if (!kernel.create)
    return Status(StatusCode::kUnsupported, "OPC0411", op.def().name + ": the kernel has no create function")
        .withHelp("call SetCreateFn when registering it");
  std::unique_ptr<KernelTask> task(new KernelTask);
  static std::atomic<uint64_t> tasks = 0;
  if (hasOpenedPlugin()) task->number_ = ++tasks;
  task->impl_ = std::make_unique<Impl>(std::move(op), kernel, ctx->device_type());
  Impl &impl = *task->impl_;
  impl.context.setDeviceCtx(ctx);
  impl.context.constant = constant;
  const auto &ins = impl.op.inputArgs(), &outs = impl.op.outputArgs();
  auto argName = [](const std::pair<std::string, int32_t> &a) { return a.first + "_" + std::to_string(a.second); };
  // Inputs that the definition declares mutable (optimizer updates) may be written.
  const std::vector<bool> writable = mutableInputs(impl.op);
  for (size_t i = 0; i < ins.size(); ++i)
    impl.context.inputTensors.emplace_back(argName(ins[i]), impl.op.inputDescs()[i], data[i], ctx->device_type(),
                                           writable[i]);
  bool allEmpty = !outs.empty();
  for (size_t i = 0; i < outs.size(); ++i) {
    impl.context.outputTensors.emplace_back(argName(outs[i]), impl.op.outputDescs()[i], data[ins.size() + i],
                                            ctx->device_type(), true);
    allEmpty = allEmpty && impl.op.outputDescs()[i].shape().elem_cnt() == 0;
  }
  if (workspaceBytes > 0) {
    impl.context.workspace = Tensor("tmp_buffer", TensorDesc(Shape{static_cast<int64_t>(workspaceBytes)}, kChar),
                                    workspace, ctx->device_type(), true);
    impl.context.hasWorkspace = true;
  }
  const PluginRule here(impl.op.def().name, kernel.origin, kPreparation);
  const auto failed = [&](Status s) {
    s = named(std::move(s), impl.op);
    op = std::move(impl.op);
    return s;
  };
  HostCreateContext createContext(impl.op, ctx->device_type());
  if (Status s = kernel.create(&createContext, &impl.kernel); !s.isOk()) return failed(std::move(s));
  impl.skip = allEmpty && !impl.kernel->AlwaysComputeWhenAllOutputsEmpty();
  if (impl.skip) return std::move(task);
  HostInitContext initContext(impl.op, ctx);
  if (Status s = kernel.init(*impl.kernel, &initContext, &impl.state, &impl.cache); !s.isOk())
    return failed(std::move(s));
  if (Status s = kernel.bind(*impl.kernel, &impl.context, &task->bound_); !s.isOk()) return failed(std::move(s));
  task->run_ = kernel.run;
  if (ctx->device_type() == DeviceType::kGPU) impl.findCudaRuntime();
  if (impl.lastCudaError && task->bound_) {
    impl.boundRun = task->run_;
    task->run_ = Impl::runAndCheck;
  }
  return std::move(task);
}

Status KernelTask::runUnbound(DeviceCtx *ctx) {
  Impl &impl = *impl_;
  if (impl.skip) return Status::ok();
  impl.context.setDeviceCtx(ctx);
  OPC_RETURN_IF_ERROR(impl.kernelDef->compute(*impl.kernel, &impl.context, impl.state.get(), impl.cache.get()));
  OPC_RETURN_IF_ERROR(impl.checkCudaRuntime());
  OPC_RETURN_IF_ERROR(checkShapes(impl.op.inputArgs(), impl.op.inputDescs(), &impl.context.inputTensors));
  return checkShapes(impl.op.outputArgs(), impl.op.outputDescs(), &impl.context.outputTensors);
}

Status KernelTask::rebind(const std::vector<void *> &data, void *workspace, DeviceCtx *ctx) {
  Impl &impl = *impl_;
  const size_t inputs = impl.context.inputTensors.size();
  for (size_t i = 0; i < inputs; ++i) impl.context.inputTensors[i].rebind(data[i]);
  for (size_t i = 0; i < impl.context.outputTensors.size(); ++i) impl.context.outputTensors[i].rebind(data[inputs + i]);
  impl.context.workspace.rebind(workspace);
  if (impl.skip) return Status::ok();
  impl.context.setDeviceCtx(ctx);
  bound_.reset();
  const PluginRule here(impl.op.def().name, impl.kernelDef->origin, kPreparation);
  return named(impl.kernelDef->bind(*impl.kernel, &impl.context, &bound_), impl.op);
}

} // namespace opc
