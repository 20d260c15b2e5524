// Batches: the pieces of many updates in one walk.
// SPDX-License-Identifier: Apache-2.0
#include "Batch.h"
#include "HostContexts.h"
#include "JoiningTask.h"
#include "KernelTask.h"
#include "MutableInputs.h"
#include "Region.h"
#include "StepFailure.h"

#include "opc/PieceTask.h"

#include <algorithm>
#include <map>

namespace opc {

using user_op::KernelDef;

bool mayJoinBatch(const OpInstance &op, const KernelDef &kernel, DeviceType device) {
  if (!kernel.create || kernel.hasState || !op.outputArgs().empty()) return false;
  HostCreateContext context(op, device);
  std::unique_ptr<user_op::OpKernel> made;
  if (!kernel.create(&context, &made).isOk()) return false;
  return device == DeviceType::kGPU ? dynamic_cast<const cuda::JoiningKernel *>(made.get()) != nullptr
                                    : dynamic_cast<const user_op::PieceKernel *>(made.get()) != nullptr;
}

std::vector<bool> writtenInputs(const Batch &batch) {
  std::vector<bool> written(batch.inputs.size(), false);
  for (const BatchStep &step : batch.steps) {
    const std::vector<bool> own = mutableInputs(step.op);
    for (size_t k = 0; k < step.args.size(); ++k)
      if (own[k]) written[step.args[k]] = true;
  }
  return written;
}

Status checkBatch(const Batch &batch, DeviceType device) {
  const auto bad = [](const std::string &what) {
    return Status(StatusCode::kInvalidGraph, "OPC0816", "invalid plan: " + what).withHelp("compile the graph again");
  };
  if (batch.steps.empty() || batch.steps.size() > kMaxBatchSteps)
    return bad("a task of updates has " + std::to_string(batch.steps.size()) + " of them; 1 to " +
               std::to_string(kMaxBatchSteps) + " are possible");
  const std::vector<bool> written = writtenInputs(batch);
  std::vector<const BatchStep *> user(batch.inputs.size(), nullptr);
  for (const BatchStep &step : batch.steps) {
    const std::string name = step.op.conf().name + " (" + step.op.def().name + ")";
    if (!mayJoinBatch(step.op, *step.kernel, device))
      return bad(name + " makes tensors, or its kernel here does not work in pieces");
    for (size_t k = 0; k < step.args.size(); ++k) {
      if (step.args[k] >= batch.inputs.size() || step.op.inputDescs()[k] != batch.inputs[step.args[k]])
        return bad(name + " reads what is no input of the task");
      const BatchStep *&other = user[step.args[k]];
      if (other && other != &step && written[step.args[k]])
        return bad(name + " and " + other->op.conf().name + " use a tensor that one of them writes");
      other = &step;
    }
  }
  return Status::ok();
}

namespace {

class BoundBatch final : public user_op::BoundKernel {
public:
  explicit BoundBatch(std::vector<std::unique_ptr<KernelTask>> tasks) : tasks_(std::move(tasks)) {
    for (const auto &task : tasks_) {
      pieces_.push_back(dynamic_cast<const user_op::PieceTask *>(task->bound()));
      if (!pieces_.back())
        throw ContractError(task->op().def().name + ": its kernel says that it works in pieces, and has none");
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + pieces_.back()->Pieces());
    }
  }

  void Run(DeviceCtx *ctx) override {
    runSteps([&] {
      ctx->parallelFor(ends_.back(), user_op::PieceTask::kGrain,
                       [this](int64_t begin, int64_t end) { range(begin, end); });
    });
  }

private:
  void range(int64_t begin, int64_t end) const {
    auto step = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin());
    watchSteps(&step, [&] {
      for (; begin < end; ++step) {
        const int64_t first = step == 0 ? 0 : ends_[step - 1], last = std::min(end, ends_[step]);
        if (begin < last) pieces_[step]->RunPieces(begin - first, last - first);
        begin = last;
      }
    });
  }

  std::vector<std::unique_ptr<KernelTask>> tasks_;
  std::vector<const user_op::PieceTask *> pieces_;
  std::vector<int64_t> ends_; // by step: the pieces of it and those before it
};

/// Launches that do what those of all steps do, of one group each.
class BoundLaunches final : public user_op::BoundKernel {
public:
  BoundLaunches(const std::vector<std::unique_ptr<KernelTask>> &tasks, DeviceCtx *ctx) {
    std::map<std::string, std::vector<const cuda::JoiningTask *>> groups;
    for (const auto &task : tasks) {
      const auto *joining = dynamic_cast<const cuda::JoiningTask *>(task->bound());
      if (!joining)
        throw ContractError(task->op().def().name + ": its kernel says that its launches can be one, and they cannot");
      groups[joining->group()].push_back(joining);
    }
    for (const auto &[group, members] : groups) launches_.push_back(members.front()->join(members, ctx));
  }

  void Run(DeviceCtx *ctx) override {
    for (const auto &launch : launches_) launch->Run(ctx);
  }

private:
  std::vector<std::unique_ptr<user_op::BoundKernel>> launches_;
};

class BatchKernel final : public user_op::BindingKernel {
public:
  explicit BatchKernel(std::shared_ptr<const Batch> batch) : batch_(std::move(batch)) {}

  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    std::vector<std::unique_ptr<KernelTask>> tasks;
    for (const BatchStep &step : batch_->steps) {
      std::vector<void *> data;
      std::vector<bool> constant;
      for (uint32_t a : step.args) {
        const auto index = static_cast<int32_t>(a);
        data.push_back(const_cast<void *>(ctx->In("in", index).raw_dptr())); // its op says which it writes
        constant.push_back(ctx->isConstant("in", index));
      }
      auto task = KernelTask::create(OpInstance(step.op), *step.kernel, ctx->device_ctx(), data, constant, nullptr, 0);
      if (!task) throw ContractError(task.status().message() + ", " + task.status().context());
      tasks.push_back(std::move(*task));
    }
    if (ctx->device_ctx()->device_type() == DeviceType::kGPU)
      return std::make_unique<BoundLaunches>(tasks, ctx->device_ctx());
    return std::make_unique<BoundBatch>(std::move(tasks));
  }

private:
  std::shared_ptr<const Batch> batch_;
};

} // namespace

KernelDef batchKernel(std::shared_ptr<const Batch> batch) {
  KernelDef def = user_op::OpKernelRegistry(kRegionType, __FILE__, __LINE__).GetResult();
  def.create = [batch](user_op::KernelCreateContext *, std::unique_ptr<user_op::OpKernel> *out) {
    *out = std::make_unique<BatchKernel>(batch);
    return Status::ok();
  };
  return def;
}

} // namespace opc
