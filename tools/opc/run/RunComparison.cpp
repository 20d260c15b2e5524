// Two runs of one graph, tensor by tensor.
// SPDX-License-Identifier: Apache-2.0
#include "RunComparison.h"

#include "TensorSpec.h"

#include <algorithm>
#include <cstring>

namespace opc::cli {

namespace {

Result<HostTensor> copyOf(const user_op::TensorDesc &desc, Result<const void *> bytes) {
  Result<HostTensor> copy = HostTensor::createUninitialized(desc.data_type(), desc.shape());
  if (!copy || !copy->bytes()) return copy;
  if (!bytes) return bytes.status();
  std::memcpy(copy->data(), *bytes, copy->bytes());
  return copy;
}

bool isMadeByTask(const ObservedTensor &in) { return in.source == ObservedTensor::Source::kTask && !in.isMutable; }

} // namespace

std::string updatedName(const std::string &variable) { return variable + " (updated)"; }

Status TensorKeeper::keep(const std::string &name, const ObservedTensor &tensor, Result<const void *> bytes) {
  const uint64_t size = static_cast<uint64_t>(std::max<int64_t>(tensor.desc.shape().elem_cnt(), 0)) *
                        GetSizeOfDataType(tensor.desc.data_type());
  {
    std::lock_guard<std::mutex> guard(lock_);
    if (kept_ + size > mostBytes_) return ++leftOut, Status::ok();
    kept_ += size;
  }
  OPC_ASSIGN_OR_RETURN(HostTensor value, copyOf(tensor.desc, std::move(bytes)));
  std::lock_guard<std::mutex> guard(lock_);
  tensors[name] = std::move(value);
  return Status::ok();
}

Status TensorKeeper::after(const ObservedTask &task, int64_t, TaskData &data) {
  for (size_t i = 0; i < task.outputs.size(); ++i)
    OPC_RETURN_IF_ERROR(keep(task.outputs[i].name, task.outputs[i], data.output(i)));
  for (size_t i = 0; i < task.inputs.size(); ++i)
    if (task.inputs[i].isMutable)
      OPC_RETURN_IF_ERROR(keep(updatedName(task.inputs[i].name), task.inputs[i], data.input(i)));
  return Status::ok();
}

const HostTensor *RunComparison::referenceFor(const std::string &name, const user_op::TensorDesc &desc,
                                              HostTensor *converted) const {
  const auto found = reference_.find(name);
  if (found == reference_.end() || found->second.shape() != desc.shape()) return nullptr;
  if (found->second.dtype() == desc.data_type()) return &found->second;
  if (!IsFloatingDataType(desc.data_type()) || !IsFloatingDataType(found->second.dtype())) return nullptr;
  Result<HostTensor> cast = castTensor(found->second, desc.data_type());
  if (!cast) return nullptr; // what the reference holds is beyond this type
  *converted = std::move(*cast);
  return converted;
}

Status RunComparison::before(const ObservedTask &task, int64_t, TaskData &data) {
  if (!rules_.isIsolated) return Status::ok();
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    HostTensor converted;
    if (!isMadeByTask(task.inputs[i])) continue;
    const HostTensor *wanted = referenceFor(task.inputs[i].name, task.inputs[i].desc, &converted);
    if (wanted && wanted->bytes()) OPC_RETURN_IF_ERROR(data.replaceInput(i, wanted->data()));
  }
  return Status::ok();
}

Status RunComparison::compare(const ObservedTask &task, const std::string &name, const HostTensor &actual) {
  HostTensor converted;
  const HostTensor *wanted = referenceFor(name, actual.desc(), &converted);
  std::lock_guard<std::mutex> guard(lock_);
  if (rules_.endsAtFirst && !found_.empty()) return Status::ok();
  if (!wanted) return ++leftOut_, Status::ok();
  ++compared_;
  const Tolerance limit = rules_.tolerance(name, *wanted);
  const Comparison c = compareTensors(actual, *wanted, limit, true);
  if (c.passed()) return Status::ok();
  TensorDifference d{
      task.index, name, task.name, task.type, task.where, c, mismatchText(name, actual, *wanted, c, limit, true),
      "",         ""};
  for (const ObservedTensor &in : task.inputs) {
    for (const TensorDifference &earlier : found_)
      if (d.brokenInput.empty() && earlier.tensor == in.name && earlier.task != task.index) d.brokenInput = in.name;
    if (d.unknownInput.empty() && isMadeByTask(in) && !referenceFor(in.name, in.desc, &converted))
      d.unknownInput = in.name;
  }
  found_.push_back(std::move(d));
  return Status::ok();
}

Status RunComparison::check(const ObservedTask &task, const std::string &name, const ObservedTensor &tensor,
                            Result<const void *> bytes) {
  OPC_ASSIGN_OR_RETURN(const HostTensor actual, copyOf(tensor.desc, std::move(bytes)));
  return compare(task, name, actual);
}

Status RunComparison::after(const ObservedTask &task, int64_t, TaskData &data) {
  for (size_t i = 0; i < task.outputs.size(); ++i)
    OPC_RETURN_IF_ERROR(check(task, task.outputs[i].name, task.outputs[i], data.output(i)));
  for (size_t i = 0; i < task.inputs.size(); ++i)
    if (task.inputs[i].isMutable)
      OPC_RETURN_IF_ERROR(check(task, updatedName(task.inputs[i].name), task.inputs[i], data.input(i)));
  return Status::ok();
}

std::vector<TensorDifference> RunComparison::differences() {
  std::lock_guard<std::mutex> guard(lock_);
  std::stable_sort(found_.begin(), found_.end(),
                   [](const TensorDifference &a, const TensorDifference &b) { return a.task < b.task; });
  return found_;
}

} // namespace opc::cli
