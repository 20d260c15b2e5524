// Single ops on a device: memory for each tensor, one launch, results.
// SPDX-License-Identifier: Apache-2.0
#include "OpDevice.h"

#include "Device.h"
#include "DeviceLoop.h"
#include "DeviceRegion.h"
#include "KernelTask.h"
#include "MutableInputs.h"
#include "PluginCuda.h"
#include "cuda/CudaDevice.h"

#include <cstring>

namespace opc {

using runtime::Device;
using runtime::DeviceMemory;
using runtime::Stream;

namespace {

/// What computes an op.
struct Computing {
  OpInstance op; // the region's, where it is one
  const user_op::KernelDef *kernel;
  std::shared_ptr<const user_op::KernelDef> own = nullptr; // of generated code
};

/// The task's op of a region of one, as a plan would have it.
Result<OpInstance> regionInstance(const OpInstance &op) {
  user_op::OpConf conf;
  conf.name = op.conf().name;
  conf.type = kRegionType;
  const auto bind = [](const char *arg, size_t count, std::vector<user_op::ArgBinding> *to) {
    user_op::ArgBinding binding{arg, {}};
    for (size_t i = 0; i < count; ++i) binding.tensors.push_back(std::string(arg) + "_" + std::to_string(i));
    to->push_back(std::move(binding));
  };
  bind("in", op.inputDescs().size(), &conf.inputs);
  bind("out", op.outputDescs().size(), &conf.outputs);
  OPC_RETURN_IF_ERROR(completeOpConf(regionOp(), &conf));
  OpInstance region(regionOp(), std::move(conf));
  region.inputDescs() = op.inputDescs();
  region.outputDescs() = op.outputDescs();
  return region;
}

} // namespace

struct OpDevice::Impl {
  std::string name;
  std::unique_ptr<Device> device; // empty behind a failure: it may take no more work
  std::unique_ptr<Stream> stream;
  const runtime::cuda::CudaDriver *simulator = nullptr; // null of a GPU
  std::shared_ptr<const DeviceCode> code;               // of the last op that has been asked for: compiled once

  ~Impl() { close(); }
  void close() {
    stream.reset();
    device.reset();
  }
  Status open() {
    if (device) return Status::ok();
    OPC_ASSIGN_OR_RETURN(device, runtime::openDevice(name));
    stream = device->createStream(1);
    stream->enter();
    return stream->synchronize();
  }
  Result<DeviceMemory> memoryOf(size_t bytes, const void *from) {
    OPC_ASSIGN_OR_RETURN(DeviceMemory memory, device->allocateUnwritten(bytes));
    if (from && bytes) OPC_RETURN_IF_ERROR(device->copyFromHost(*stream, memory.data(), from, bytes));
    return memory;
  }
  Result<Computing> computing(const Registry &registry, const OpInstance &op);
  Status run(const Registry &registry, const OpInstance &op, std::vector<OpTensor> *inputs,
             std::vector<OpTensor> *outputs);
};

Result<Computing> OpDevice::Impl::computing(const Registry &registry, const OpInstance &op) {
  const DeviceType type = runtime::deviceTypeOf(name);
  const auto kernel = op.selectKernel(registry, type);
  if (kernel) return Computing{op, *kernel};
  const auto compiler = deviceCompiler();
  const auto cpu = op.selectKernel(registry, DeviceType::kCPU);
  if (type != DeviceType::kGPU || !compiler || !cpu) return kernel.status();
  const auto region = deviceRegionOfOne(op, **cpu);
  std::string reason;
  if (region) code = compiler->compileForDevice(*region, &reason);
  if (!region || !code) return kernel.status();
  OPC_ASSIGN_OR_RETURN(user_op::KernelDef def, runtime::deviceRegionKernel(region, registry));
  auto own = std::make_shared<const user_op::KernelDef>(std::move(def));
  OPC_ASSIGN_OR_RETURN(OpInstance instance, regionInstance(op));
  return Computing{std::move(instance), own.get(), own};
}

Status OpDevice::Impl::run(const Registry &registry, const OpInstance &op, std::vector<OpTensor> *inputs,
                           std::vector<OpTensor> *outputs) {
  OPC_ASSIGN_OR_RETURN(const Computing by, computing(registry, op));
  OPC_ASSIGN_OR_RETURN(const uint64_t workspaceBytes, by.own ? Result<uint64_t>(0) : op.tmpSize(*by.kernel));
  outputs->clear();
  for (const user_op::TensorDesc &d : op.outputDescs()) outputs->emplace_back(d);
  std::vector<DeviceMemory> memory;
  std::vector<void *> data;
  for (const OpTensor &t : *inputs) {
    OPC_ASSIGN_OR_RETURN(DeviceMemory m, memoryOf(t.bytes(), t.data()));
    data.push_back(m.data());
    memory.push_back(std::move(m));
  }
  for (const OpTensor &t : *outputs) {
    OPC_ASSIGN_OR_RETURN(DeviceMemory m, memoryOf(t.bytes(), nullptr));
    data.push_back(m.data());
    memory.push_back(std::move(m));
  }
  OPC_ASSIGN_OR_RETURN(const DeviceMemory workspace, memoryOf(workspaceBytes, nullptr));
  OPC_ASSIGN_OR_RETURN(auto task,
                       KernelTask::create(OpInstance(by.op), *by.kernel, stream->context(), data,
                                          std::vector<bool>(inputs->size()), workspace.data(), workspaceBytes));
  OPC_RETURN_IF_ERROR(runtime::checkCudaRuntimeOf(*task, *device));
  OPC_RETURN_IF_ERROR(task->run(stream->context()));
  OPC_RETURN_IF_ERROR(stream->synchronize());
  const std::vector<bool> isWritten = mutableInputs(op);
  auto fetch = [&](OpTensor *to, size_t index) {
    return to->bytes() ? device->copyToHost(*stream, to->data(), data[index], to->bytes()) : Status::ok();
  };
  for (size_t i = 0; i < inputs->size(); ++i)
    if (isWritten[i]) OPC_RETURN_IF_ERROR(fetch(&(*inputs)[i], i));
  for (size_t i = 0; i < outputs->size(); ++i) OPC_RETURN_IF_ERROR(fetch(&(*outputs)[i], inputs->size() + i));
  return stream->synchronize();
}

OpDevice::OpDevice(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OpDevice::OpDevice(OpDevice &&) noexcept = default;
OpDevice &OpDevice::operator=(OpDevice &&) noexcept = default;
OpDevice::~OpDevice() = default;

Result<OpDevice> OpDevice::open(const std::string &name) {
  auto impl = std::make_unique<Impl>();
  impl->name = name;
  OPC_RETURN_IF_ERROR(impl->open());
  impl->simulator = runtime::simulatorOf(*impl->device);
  if (impl->simulator) impl->simulator->setPrints(false);
  return OpDevice(std::move(impl));
}

DeviceType OpDevice::type() const { return runtime::deviceTypeOf(impl_->name); }

bool OpDevice::computes(const Registry &registry, const OpInstance &op) const {
  return impl_->computing(registry, op).isOk();
}

Status OpDevice::run(const Registry &registry, const OpInstance &op, std::vector<OpTensor> *inputs,
                     std::vector<OpTensor> *outputs) {
  OPC_RETURN_IF_ERROR(impl_->open());
  Status status = impl_->run(registry, op, inputs, outputs);
  if (!status.isOk()) impl_->close();
  return status;
}

std::string OpDevice::report() const { return impl_->simulator ? impl_->simulator->simulatorReport() : ""; }
size_t OpDevice::findings() const { return impl_->simulator ? impl_->simulator->simulatorFindings() : 0; }

} // namespace opc
