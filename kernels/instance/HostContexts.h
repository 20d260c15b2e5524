// The host's side of the SDK's contexts: plain look-ups in an OpInstance.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include <deque>

namespace opc {

/// The parts that every context answers the same way.
template <class Base> class HostContext : public Base {
public:
  explicit HostContext(const OpInstance &op) : op_(&op) {}
  const user_op::ArgList &inputs() const override { return op_->inputArgs(); }
  const user_op::ArgList &outputs() const override { return op_->outputArgs(); }
  const user_op::UserOpConfWrapper &user_op_conf() const override { return op_->wrapper(); }

protected:
  const AttrValue *findAttr(const std::string &name) const override {
    const auto &attrs = op_->conf().attrs;
    auto it = attrs.find(name);
    return it == attrs.end() ? nullptr : &it->second;
  }
  const OpInstance *op_;
};

class HostInferContext final : public HostContext<user_op::InferContext> {
public:
  HostInferContext(const OpInstance &op, std::vector<user_op::TensorDesc> *inputs,
                   std::vector<user_op::TensorDesc> *outputs)
      : HostContext(op), inputs_(inputs), outputs_(outputs) {}

protected:
  user_op::TensorDesc *findDesc(const std::string &arg, int32_t index) override {
    if (int i = op_->findInput(arg, index); i >= 0) return &(*inputs_)[static_cast<size_t>(i)];
    if (int i = op_->findOutput(arg, index); i >= 0) return &(*outputs_)[static_cast<size_t>(i)];
    return nullptr;
  }

private:
  std::vector<user_op::TensorDesc> *inputs_, *outputs_;
};

/// Descriptors straight from the instance.
template <class Base> class HostKernelContext : public HostContext<Base> {
public:
  HostKernelContext(const OpInstance &op, DeviceType device) : HostContext<Base>(op), device_(device) {}
  DeviceType device_type() const override { return device_; }
  const ParallelContext &parallel_ctx() const override { return this->op_->parallel(); }

protected:
  const user_op::TensorShard *findShard(const std::string &arg, int32_t index) const override {
    const auto &shards = this->op_->shards();
    if (shards.empty()) return nullptr;
    if (int i = this->op_->findInput(arg, index); i >= 0) return &shards[static_cast<size_t>(i)];
    if (int i = this->op_->findOutput(arg, index); i >= 0)
      return &shards[this->op_->inputDescs().size() + static_cast<size_t>(i)];
    return nullptr;
  }
  const user_op::TensorDesc *findDesc(const std::string &arg, int32_t index) const override {
    if (int i = this->op_->findInput(arg, index); i >= 0) return &this->op_->inputDescs()[static_cast<size_t>(i)];
    if (int i = this->op_->findOutput(arg, index); i >= 0) return &this->op_->outputDescs()[static_cast<size_t>(i)];
    return nullptr;
  }
  DeviceType device_;
};

using HostRegContext = HostKernelContext<user_op::KernelRegContext>;
using HostCreateContext = HostKernelContext<user_op::KernelCreateContext>;

class HostInitContext final : public HostKernelContext<user_op::KernelInitContext> {
public:
  HostInitContext(const OpInstance &op, DeviceCtx *ctx) : HostKernelContext(op, ctx->device_type()), ctx_(ctx) {}
  DeviceCtx *device_ctx() override { return ctx_; }

private:
  DeviceCtx *ctx_;
};

/// Compute and Bind: the same tensors, at fixed addresses.
class HostBindContext final : public HostKernelContext<user_op::KernelBindContext> {
public:
  HostBindContext(const OpInstance &op, DeviceType device) : HostKernelContext(op, device) {}
  void setDeviceCtx(DeviceCtx *ctx) { ctx_ = ctx; }
  DeviceCtx *device_ctx() override { return ctx_; }
  bool isConstant(const std::string &arg, int32_t index) const override {
    const int i = op_->findInput(arg, index);
    return i >= 0 && static_cast<size_t>(i) < constant.size() && constant[static_cast<size_t>(i)];
  }
  std::deque<user_op::Tensor> inputTensors, outputTensors; // deque: kernels keep pointers
  user_op::Tensor workspace;
  bool hasWorkspace = false;
  std::vector<bool> constant;

protected:
  user_op::Tensor *findTensor(const std::string &arg, int32_t index) override {
    if (int i = op_->findInput(arg, index); i >= 0) return &inputTensors[static_cast<size_t>(i)];
    if (int i = op_->findOutput(arg, index); i >= 0) return &outputTensors[static_cast<size_t>(i)];
    if (hasWorkspace && index == 0 && arg == "tmp_buffer") return &workspace;
    return nullptr;
  }

private:
  DeviceCtx *ctx_ = nullptr;
};

} // namespace opc
