// One op by itself on the CPU: memory, kernel, run.
// SPDX-License-Identifier: Apache-2.0
#include "RunOp.h"
#include "GuardedMemory.h"
#include "KernelTask.h"
#include "opc/Convert.h"
#include "opc/Dispatch.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace opc {

using user_op::ArgBinding;
using user_op::OpConf;
using user_op::OpDef;
using user_op::TensorDesc;

OpTensor::OpTensor(TensorDesc desc)
    : desc_(std::move(desc)), bytes_(static_cast<size_t>(elements()) * GetSizeOfDataType(type())),
      lines_(bytes_ / sizeof(Line) + 1) {}

bool OpTensor::operator==(const OpTensor &o) const {
  return desc_ == o.desc_ && (bytes_ == 0 || std::memcmp(data(), o.data(), bytes_) == 0);
}

double element(const OpTensor &tensor, int64_t i) {
  return visit(tensor.type(),
               [&](auto tag) { return static_cast<double>(numberOf(tensor.dptr<typename decltype(tag)::type>()[i])); });
}

void setElement(OpTensor *tensor, int64_t i, double value) {
  visit(tensor->type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    tensor->mut_dptr<T>()[i] =
        std::is_integral_v<T> ? convertElement<T>(static_cast<int64_t>(value)) : convertElement<T>(value);
  });
}

namespace {

Status tooLarge(const OpInstance &op, const std::string &what, uint64_t bytes) {
  return Status(StatusCode::kUnsupported, "OPC0302",
                op.def().name + ": its " + what + " of " + std::to_string(bytes) + " bytes is too large to try");
}

Status makeOutputs(const OpInstance &op, const RunOpOptions &options, std::vector<OpTensor> *outputs) {
  outputs->clear();
  uint64_t total = 0;
  for (const TensorDesc &d : op.outputDescs()) {
    OPC_ASSIGN_OR_RETURN(const int64_t bytes, tensorBytes(d));
    total += static_cast<uint64_t>(bytes);
    if (total > options.maxOutputBytes) return tooLarge(op, "result", total);
    std::memset(outputs->emplace_back(d).data(), options.fill, static_cast<size_t>(bytes));
  }
  return Status::ok();
}

Status checkInplace(const OpInstance &op, const user_op::KernelDef &kernel,
                    const std::vector<std::pair<int, int>> &wanted) {
  OPC_ASSIGN_OR_RETURN(const auto offered, op.inplaceProposal(kernel));
  for (const auto &pair : wanted)
    if (std::find(offered.begin(), offered.end(), pair) == offered.end())
      return Status(StatusCode::kUnsupported, "OPC0302",
                    op.def().name + ": the kernel does not compute output " + std::to_string(pair.first) +
                        " in the memory of input " + std::to_string(pair.second));
  return Status::ok();
}

} // namespace

Result<OpInstance> instanceOf(const Registry &registry, const SingleOp &op, std::vector<size_t> *order) {
  const OpDef *def = registry.findOp(op.type);
  if (!def) return Status(StatusCode::kInvalidGraph, "OPC0201", "unknown op type '" + op.type + "'");
  OpConf conf;
  conf.name = op.name;
  conf.type = op.type;
  conf.attrs = op.attrs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const std::string &arg = op.inputs[i].first;
    auto binding = std::find_if(conf.inputs.begin(), conf.inputs.end(), [&](const auto &b) { return b.name == arg; });
    if (binding == conf.inputs.end()) binding = conf.inputs.insert(conf.inputs.end(), ArgBinding{arg, {}});
    binding->tensors.push_back(std::to_string(i)); // the tensor's name says where it comes from
  }
  for (const auto &[arg, count] : op.outputs) {
    ArgBinding &b = conf.outputs.emplace_back(ArgBinding{arg, {}});
    for (int32_t i = 0; i < count; ++i) b.tensors.push_back(op.name + "/" + arg + "_" + std::to_string(i));
  }
  OPC_RETURN_IF_ERROR(completeOpConf(*def, &conf));
  OpInstance instance(*def, std::move(conf));
  if (order) order->clear();
  size_t flat = 0;
  for (const ArgBinding &b : instance.conf().inputs)
    for (const std::string &tensor : b.tensors) {
      const auto from = static_cast<size_t>(std::stoul(tensor));
      instance.inputDescs()[flat++] = op.inputs[from].second;
      if (order) order->push_back(from);
    }
  OPC_RETURN_IF_ERROR(instance.infer());
  return instance;
}

namespace {

/// All that a kernel sees, between guards: what it may read is copied in, and what it has written is copied out.
class GuardedRun {
public:
  GuardedRun(std::vector<OpTensor> *inputs, std::vector<OpTensor> *outputs, OpTensor *workspace,
             const RunOpOptions &options)
      : inputs_(inputs->size()), options_(options) {
    for (auto *list : {inputs, outputs})
      for (OpTensor &t : *list) add(&t);
    add(workspace);
  }
  void *data(size_t tensor) { return copies_[tensor].data(); }
  void *workspace() { return copies_.back().data(); }

  Status finish(const OpInstance &op) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (const std::string damage = copies_[i].damage(); !damage.empty())
        return Status(StatusCode::kExecution, "OPC0606",
                      "the kernel of " + op.def().name + " writes beside " + nameOf(op, i) + ": it " + damage)
            .withHelp(i + 1 == tensors_.size() ? "TmpSize (SetInferTmpSizeFn) says how many bytes it is"
                                               : "look at how far its loops go");
      if (tensors_[i]->bytes()) std::memcpy(tensors_[i]->data(), copies_[i].data(), tensors_[i]->bytes());
    }
    return Status::ok();
  }

private:
  void add(OpTensor *tensor) {
    tensors_.push_back(tensor);
    GuardedMemory::Fill fill{options_.guardByte, options_.guardByte};
    if (const auto &other = options_.otherGuard; other && other->tensor == copies_.size())
      (other->isBehind ? fill.behind : fill.before) = other->byte;
    copies_.emplace_back(tensor->bytes(), copies_.size(), fill);
    if (tensor->bytes()) std::memcpy(copies_.back().data(), tensor->data(), tensor->bytes());
  }
  std::string nameOf(const OpInstance &op, size_t i) const {
    if (i + 1 == tensors_.size()) return "its temporary memory of " + std::to_string(tensors_[i]->bytes()) + " bytes";
    const auto &[name, index] = i < inputs_ ? op.inputArgs()[i] : op.outputArgs()[i - inputs_];
    return (i < inputs_ ? "its input " : "its output ") + name + (index ? "_" + std::to_string(index) : "") + ", " +
           tensors_[i]->desc().toString();
  }
  size_t inputs_;
  const RunOpOptions &options_;
  std::vector<OpTensor *> tensors_;
  std::vector<GuardedMemory> copies_;
};

} // namespace

Status runOp(const Registry &registry, const OpInstance &op, std::vector<OpTensor> *inputs,
             std::vector<OpTensor> *outputs, const RunOpOptions &options) {
  OPC_RETURN_IF_ERROR(makeOutputs(op, options, outputs));
  OPC_ASSIGN_OR_RETURN(const user_op::KernelDef *kernel, op.selectKernel(registry, DeviceType::kCPU));
  OPC_RETURN_IF_ERROR(checkInplace(op, *kernel, options.inplace));
  OPC_ASSIGN_OR_RETURN(const uint64_t workspaceBytes, op.tmpSize(*kernel));
  if (workspaceBytes > options.maxWorkspaceBytes) return tooLarge(op, "workspace", workspaceBytes);
  OpTensor workspace(TensorDesc(Shape{static_cast<int64_t>(workspaceBytes)}, kChar));
  std::memset(workspace.data(), options.fill, workspace.bytes());
  std::optional<GuardedRun> guarded;
  if (options.guards) guarded.emplace(inputs, outputs, &workspace, options);
  std::vector<void *> data;
  for (auto *list : {inputs, outputs})
    for (OpTensor &t : *list) data.push_back(guarded ? guarded->data(data.size()) : t.data());
  for (const auto &[output, input] : options.inplace)
    data[inputs->size() + static_cast<size_t>(output)] = data[static_cast<size_t>(input)];
  DeviceCtx device = options.device;
  std::vector<bool> constant = options.constant;
  constant.resize(inputs->size());
  OPC_ASSIGN_OR_RETURN(auto task,
                       KernelTask::create(OpInstance(op), *kernel, &device, data, constant,
                                          guarded ? guarded->workspace() : workspace.data(), workspaceBytes));
  for (int i = 0; i < options.runs; ++i) OPC_RETURN_IF_ERROR(task->run(&device));
  if (guarded) OPC_RETURN_IF_ERROR(guarded->finish(op));
  for (const auto &[output, input] : options.inplace) {
    OpTensor &shared = (*outputs)[static_cast<size_t>(output)];
    std::memcpy(shared.data(), (*inputs)[static_cast<size_t>(input)].data(), shared.bytes());
  }
  return Status::ok();
}

} // namespace opc
