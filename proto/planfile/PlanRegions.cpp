// Bodies of tasks, devices of tasks, bounds of sizes.
// SPDX-License-Identifier: Apache-2.0
#include "PlanRegions.h"
#include "PlanSizes.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace opc {
namespace {

constexpr char kFusedType[] = "opc.fused";

Status bad(const char *id, std::string message) {
  return Status(StatusCode::kInvalidGraph, id, "invalid plan: " + std::move(message))
      .withHelp("compile the graph again");
}

template <class Arguments> std::set<uint32_t> tensorsOf(const Arguments &arguments) {
  std::set<uint32_t> tensors;
  for (const plan::Argument &a : arguments) tensors.insert(a.tensor().begin(), a.tensor().end());
  return tensors;
}

/// Whether the body makes the task's outputs of its inputs, and nothing that others read.
Status checkBody(const plan::Task &task) {
  const std::string name = "task " + task.name();
  std::set<uint32_t> known = tensorsOf(task.input()), made;
  for (const plan::Task &t : task.body()) {
    if (t.op_type() == kFusedType || t.body_size() || t.has_boxing())
      return bad("OPC0816", name + ": " + t.name() + " in its body is no single op");
    if (t.has_stream() || t.has_stride() || t.has_lag() || t.has_device())
      return bad("OPC0816", name + ": " + t.name() + " in its body has a stream, stride, lag or device of its own");
    for (uint32_t tensor : tensorsOf(t.input()))
      if (!known.count(tensor))
        return bad("OPC0816", name + ": " + t.name() + " in its body reads tensor " + std::to_string(tensor) +
                                  ", which is no input of the task and not made before");
    for (uint32_t tensor : tensorsOf(t.output())) {
      if (!made.insert(tensor).second || !known.insert(tensor).second)
        return bad("OPC0816", name + ": its body makes tensor " + std::to_string(tensor) + " twice");
    }
  }
  for (uint32_t tensor : tensorsOf(task.output()))
    if (!made.count(tensor))
      return bad("OPC0816", name + ": its body does not make its output, tensor " + std::to_string(tensor));
  return Status::ok();
}

Status checkDevice(const plan::Plan &plan, const plan::Task &task) {
  if (!task.has_device() || task.stream() >= static_cast<uint32_t>(plan.stream_size())) return Status::ok();
  const std::string &stream = plan.stream(static_cast<int>(task.stream())).device();
  if (task.device() == stream || task.device() == stream + ":0") return Status::ok();
  return Status(StatusCode::kUnsupported, "OPC0820",
                "task " + task.name() + " is on device '" + task.device() + "', and its stream is one of '" + stream +
                    "'")
      .withHelp("compile the graph for the device that it is to run on");
}

Status checkBound(const plan::Tensor &tensor, bool hasSizes) {
  if (tensor.bound_size() == 0) return Status::ok();
  if (tensor.bound_size() != tensor.dim_size())
    return bad("OPC0812", "tensor " + tensor.name() + " has " + std::to_string(tensor.dim_size()) + " dimensions and " +
                              std::to_string(tensor.bound_size()) + " bounds");
  bool isOpen = false;
  for (int i = 0; i < tensor.dim_size(); ++i) {
    isOpen |= tensor.dim(i) == -1;
    if (tensor.bound(i) < 0 || (tensor.dim(i) != -1 && tensor.dim(i) != tensor.bound(i)))
      return bad("OPC0812", "dimension " + std::to_string(i) + " of tensor " + tensor.name() + " is " +
                                std::to_string(tensor.dim(i)) + " and has the bound " +
                                std::to_string(tensor.bound(i)));
  }
  if (!isOpen || hasSizes) return Status::ok();
  return Status(StatusCode::kUnsupported, "OPC0812",
                "tensor " + tensor.name() +
                    " has sizes of which the plan knows the bound alone, and this runtime needs the sizes")
      .withHelp("compile the graph for known shapes: --shape INPUT=8,4");
}

/// Whether the body is a batch of updates, which makes nothing: one task for an executor, too.
bool isBatch(const plan::Task &task) {
  return !task.region() && tensorsOf(task.output()).empty() &&
         std::all_of(task.body().begin(), task.body().end(),
                     [](const plan::Task &t) { return tensorsOf(t.output()).empty(); });
}

/// Replaces the tasks with bodies that are neither regions nor batches, in the list and in the streams.
void inlineBodies(plan::Plan *plan) {
  google::protobuf::RepeatedPtrField<plan::Task> tasks;
  std::vector<std::vector<uint32_t>> placed; // where each task is now
  for (plan::Task &task : *plan->mutable_task()) {
    placed.emplace_back();
    auto add = [&](plan::Task &&t) {
      placed.back().push_back(static_cast<uint32_t>(tasks.size()));
      *tasks.Add() = std::move(t);
    };
    if (task.body_size() == 0 || task.region() || isBatch(task)) {
      add(std::move(task));
      continue;
    }
    for (plan::Task &t : *task.mutable_body()) {
      if (task.has_stream()) t.set_stream(task.stream());
      if (task.has_stride()) t.set_stride(task.stride());
      if (task.has_lag()) t.set_lag(task.lag());
      if (task.has_location() && !t.has_location()) *t.mutable_location() = task.location();
      add(std::move(t));
    }
  }
  plan->mutable_task()->Swap(&tasks);
  for (plan::Stream &stream : *plan->mutable_stream()) {
    google::protobuf::RepeatedField<uint32_t> list;
    for (uint32_t t : stream.task()) {
      if (t < placed.size())
        for (uint32_t now : placed[t]) list.Add(now);
      else
        list.Add(UINT32_MAX); // refused where references are checked
    }
    stream.mutable_task()->Swap(&list);
  }
}

Status resolve(plan::Plan *plan) {
  bool hasBody = false;
  for (plan::Task &task : *plan->mutable_task())
    for (plan::Plan &graph : *task.mutable_graph()) OPC_RETURN_IF_ERROR(resolve(&graph)); // checkPlanGraphs(): not deep
  for (const plan::Tensor &t : plan->tensor()) OPC_RETURN_IF_ERROR(checkBound(t, hasSizes(*plan)));
  for (const plan::Task &task : plan->task()) {
    OPC_RETURN_IF_ERROR(checkDevice(*plan, task));
    if (task.op_type() != kFusedType) {
      if (task.body_size()) return bad("OPC0816", "task " + task.name() + " of type " + task.op_type() + " has a body");
      continue;
    }
    if (task.body_size() == 0) return bad("OPC0816", "task " + task.name() + " has no body");
    OPC_RETURN_IF_ERROR(checkBody(task));
    hasBody |= !task.region() && !isBatch(task);
  }
  if (hasBody) inlineBodies(plan);
  return Status::ok();
}

} // namespace

Status resolveRegions(plan::Plan *plan) {
  OPC_RETURN_IF_ERROR(resolve(plan));
  for (plan::Plan &part : *plan->mutable_part()) OPC_RETURN_IF_ERROR(resolve(&part));
  return checkPlanSizes(*plan);
}

} // namespace opc
