// How regions run on a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceRegion.h"

#include "CudaModules.h"
#include "DeviceErrors.h"
#include "DeviceRows.h"
#include "HostContexts.h"
#include "KernelTask.h"
#include "StepFailure.h"

#include <algorithm>
#include <cstring>

namespace opc::runtime {
namespace {

using opc::cuda::CudaLaunch;
using opc::cuda::CudaModules;
using user_op::BoundKernel;
using user_op::KernelBindContext;

/// Where the inputs of a task lie, then its outputs.
std::vector<void *> tensorsOf(const Region &region, KernelBindContext *ctx) {
  std::vector<void *> tensors;
  for (size_t i = 0; i < region.inputs.size(); ++i)
    tensors.push_back(const_cast<void *>(ctx->In("in", static_cast<int32_t>(i)).raw_dptr()));
  for (size_t o = 0; o < region.outputs.size(); ++o)
    tensors.push_back(ctx->Out("out", static_cast<int32_t>(o)).mut_raw_dptr());
  return tensors;
}

// ---- With code.

// Blocks of a region by rows: more than any GPU runs at once. Their warps go on with other rows.
constexpr int64_t kMostRowBlocks = 2048;

/// What the CPU's check says of one wrong index.
std::string textOf(const RegionStep &step, size_t argument, int64_t position, int64_t value) {
  const user_op::TensorDesc &desc = step.op.inputDescs()[argument];
  const size_t size = GetSizeOfDataType(desc.data_type());
  std::vector<char> indices(static_cast<size_t>(desc.shape().elem_cnt()) * size);
  std::memcpy(indices.data() + static_cast<size_t>(position) * size, &value, size); // the low bytes
  std::vector<const void *> in(step.op.inputDescs().size());
  in[argument] = indices.data();
  try {
    step.rows->Check(in.data());
  } catch (const ContractError &e) {
    return e.what();
  }
  return "an index is outside of its range";
}
/// Where the steps' wrong indices are noted.
std::vector<void *> faultsOf(const std::shared_ptr<const Region> &region, KernelBindContext *ctx) {
  std::vector<void *> faults;
  for (const RegionStep &step : region->steps)
    if (const std::optional<size_t> argument = checkedIndices(step)) {
      const HostCreateContext of(step.op, DeviceType::kGPU);
      faults.push_back(CudaLaunch::of(ctx->device_ctx())
                           .watch(of, step.op.inputArgs()[*argument].first,
                                  [region, &step, at = *argument](int64_t position, int64_t value) {
                                    return textOf(step, at, position, value);
                                  }));
    }
  return faults;
}

class BoundCode final : public BoundKernel {
public:
  BoundCode(const Region &region, const DeviceCode &code, std::vector<void *> tensors, std::vector<void *> faults,
            opc::cuda::CudaFunction function)
      : tensors_(std::move(tensors)), faults_(std::move(faults)), function_(function),
        elements_(region.shape.elem_cnt()) {
    for (void *&t : tensors_) arguments_.push_back(static_cast<void *>(&t));
    arguments_.push_back(&elements_);
    if (region.rowSize > 0) {
      elements_ /= region.rowSize;
      grid_ = opc::cuda::blocksFor(elements_ * kDeviceWarp, kMostRowBlocks);
      for (void *&f : faults_) arguments_.push_back(static_cast<void *>(&f));
      return;
    }
    const bool isAligned = std::all_of(tensors_.begin(), tensors_.end(),
                                       [](const void *p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; });
    packs_ = isAligned && code.lanes > 1 ? elements_ / code.lanes : 0;
    static_assert(opc::cuda::kBlock == kDeviceBlock);
    grid_ = opc::cuda::blocksFor(packs_ > 0 ? packs_ : elements_);
    arguments_.push_back(&packs_);
  }

  void Run(DeviceCtx *ctx) override {
    if (elements_ > 0) CudaLaunch::of(ctx).launch(function_, grid_, {kDeviceBlock, 1, 1}, 0, arguments_.data());
  }

private:
  std::vector<void *> tensors_, faults_;
  std::vector<void *> arguments_; // addresses of the values of the kernel's parameters
  const opc::cuda::CudaFunction function_;
  int64_t elements_, packs_ = 0; // elements, or rows
  opc::cuda::Dim3 grid_;
};

class CodeKernel final : public user_op::BindingKernel {
public:
  CodeKernel(std::shared_ptr<const Region> region, std::shared_ptr<const DeviceCode> code)
      : region_(std::move(region)), code_(std::move(code)) {}
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    return std::make_unique<BoundCode>(*region_, *code_, tensorsOf(*region_, ctx), faultsOf(region_, ctx),
                                       CudaModules::of(ctx->device_ctx()).load(code_->ptx, code_->kernel));
  }

private:
  const std::shared_ptr<const Region> region_;
  const std::shared_ptr<const DeviceCode> code_;
};

// ---- Op by op.

using Kernels = std::vector<const user_op::KernelDef *>; // of the GPU, by step

/// Where what the steps leave to each other lies in one block of memory: places that are used again.
class Leavings {
public:
  static constexpr size_t kNone = SIZE_MAX;

  static Result<Leavings> of(const Region &region, const Kernels &kernels) {
    Leavings l;
    l.placeOf_.assign(region.values(), kNone);
    std::vector<size_t> lastRead(region.values(), 0);
    for (size_t i = 0; i < region.steps.size(); ++i)
      for (uint32_t v : region.steps[i].args) lastRead[v] = i;
    for (size_t i = 0; i < region.steps.size(); ++i) {
      const RegionStep &step = region.steps[i];
      OPC_ASSIGN_OR_RETURN(const uint64_t tmp, step.op.tmpSize(*kernels[i]));
      l.workspaceBytes_.push_back(tmp);
      l.workspaceOf_.push_back(tmp ? l.take(tmp) : kNone);
      const uint32_t made = region.valueOf(i), end = made + static_cast<uint32_t>(step.op.outputDescs().size());
      for (uint32_t v = made; v < end; ++v) l.placeOf_[v] = l.take(bytesOf(region, v));
      if (tmp) l.free_.push_back(l.workspaceOf_[i]);
      const auto isOutput = [&](uint32_t v) {
        return std::find(region.outputs.begin(), region.outputs.end(), v) != region.outputs.end();
      };
      for (uint32_t v = made; v < end; ++v)
        if (isOutput(v) || lastRead[v] <= i) l.free_.push_back(l.placeOf_[v]); // an output goes to its tensor at once
      for (uint32_t v : step.args)
        if (v >= region.inputs.size() && !isOutput(v) && lastRead[v] == i && l.isTaken(l.placeOf_[v]))
          l.free_.push_back(l.placeOf_[v]);
    }
    for (const size_t bytes : l.bytes_) {
      l.begins_.push_back(l.all_);
      l.all_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    return l;
  }
  static size_t bytesOf(const Region &region, uint32_t value) {
    const user_op::TensorDesc &d = region.descOf(value);
    return static_cast<size_t>(d.shape().elem_cnt()) * GetSizeOfDataType(d.data_type());
  }

  size_t bytes() const { return all_; }
  size_t offsetOf(uint32_t value) const { return begins_[placeOf_[value]]; }
  uint64_t workspaceBytes(size_t step) const { return workspaceBytes_[step]; }
  size_t workspaceOffset(size_t step) const { return begins_[workspaceOf_[step]]; }

private:
  static constexpr size_t kAlignment = 256;
  size_t take(uint64_t bytes) {
    size_t place = bytes_.size();
    if (free_.empty()) {
      bytes_.push_back(0);
    } else {
      place = free_.back();
      free_.pop_back();
    }
    bytes_[place] = std::max(bytes_[place], static_cast<size_t>(bytes));
    return place;
  }
  bool isTaken(size_t place) const { return std::find(free_.begin(), free_.end(), place) == free_.end(); }

  std::vector<size_t> placeOf_, workspaceOf_; // by value, by step
  std::vector<uint64_t> workspaceBytes_;
  std::vector<size_t> free_;
  std::vector<size_t> bytes_, begins_; // by place
  size_t all_ = 0;
};

/// What a step has made, and the tensor that it goes to because its kernel could not write there.
struct Delivery {
  const void *from = nullptr;
  void *to = nullptr;
  size_t bytes = 0;
};

class BoundSteps final : public BoundKernel {
public:
  struct Step {
    std::unique_ptr<KernelTask> task;
    std::vector<Delivery> deliveries;
  };
  explicit BoundSteps(std::vector<Step> steps) : steps_(std::move(steps)) {}

  void Run(DeviceCtx *ctx) override {
    size_t at = 0;
    runSteps([&] {
      watchSteps(&at, [&] {
        for (; at < steps_.size(); ++at) {
          if (Status s = steps_[at].task->run(ctx); !s) throwDeviceError(std::move(s));
          for (const Delivery &d : steps_[at].deliveries) CudaLaunch::of(ctx).copy(d.to, d.from, d.bytes);
        }
      });
    });
  }

private:
  std::vector<Step> steps_;
};

class StepsKernel final : public user_op::BindingKernel {
public:
  StepsKernel(std::shared_ptr<const Region> region, Kernels kernels, Leavings leavings)
      : region_(std::move(region)), kernels_(std::move(kernels)), leavings_(std::move(leavings)) {}
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }

  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Region &r = *region_;
    const std::vector<void *> tensors = tensorsOf(r, ctx);
    std::byte *const block =
        leavings_.bytes() ? static_cast<std::byte *>(CudaModules::of(ctx->device_ctx()).scratch(leavings_.bytes()))
                          : nullptr;
    std::vector<void *> at(tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(r.inputs.size()));
    std::vector<BoundSteps::Step> steps;
    for (size_t i = 0; i < r.steps.size(); ++i) {
      const RegionStep &step = r.steps[i];
      BoundSteps::Step bound;
      std::vector<void *> data, left;
      for (uint32_t v : step.args) data.push_back(at[v]);
      for (uint32_t o = 0; o < step.op.outputDescs().size(); ++o) {
        const uint32_t made = r.valueOf(i) + o;
        void *result = block + leavings_.offsetOf(made), *tensor = result;
        const auto output = std::find(r.outputs.begin(), r.outputs.end(), made);
        if (output != r.outputs.end()) {
          tensor = tensors[r.inputs.size() + static_cast<size_t>(output - r.outputs.begin())];
          // In the place of an input: no kernel is asked whether it may write over what it reads.
          const auto inputs = tensors.begin() + static_cast<std::ptrdiff_t>(r.inputs.size());
          if (std::find(tensors.begin(), inputs, tensor) == inputs)
            result = tensor;
          else if (const size_t bytes = Leavings::bytesOf(r, made))
            bound.deliveries.push_back({result, tensor, bytes});
        }
        data.push_back(result);
        left.push_back(tensor);
      }
      at.insert(at.end(), left.begin(), left.end());
      const uint64_t tmp = leavings_.workspaceBytes(i);
      auto task = KernelTask::create(OpInstance(step.op), *kernels_[i], ctx->device_ctx(), data,
                                     std::vector<bool>(step.args.size(), false),
                                     tmp ? block + leavings_.workspaceOffset(i) : nullptr, tmp);
      if (!task) throwDeviceError(task.status());
      bound.task = std::move(*task);
      steps.push_back(std::move(bound));
    }
    return std::make_unique<BoundSteps>(std::move(steps));
  }

private:
  const std::shared_ptr<const Region> region_;
  const Kernels kernels_;
  const Leavings leavings_;
};

Status noCode(const RegionStep &step, const std::string &reason) {
  return Status(StatusCode::kUnsupported, "OPC0411",
                step.op.def().name + ": it has no kernel for GPUs, and its region has no generated code: " + reason)
      .withHelp("opc run generates it, unless --no-codegen is given; a kernel of the op's own runs everywhere");
}

} // namespace

Result<user_op::KernelDef> deviceRegionKernel(const std::shared_ptr<const Region> &region, const Registry &registry) {
  user_op::KernelDef def = user_op::OpKernelRegistry(kRegionType, __FILE__, __LINE__).GetResult();
  std::string reason = "this program makes none";
  const std::shared_ptr<DeviceCompiler> compiler = deviceCompilerOfLoad();
  if (std::shared_ptr<const DeviceCode> code = compiler ? compiler->compileForDevice(*region, &reason) : nullptr) {
    def.create = [region, code](user_op::KernelCreateContext *, std::unique_ptr<user_op::OpKernel> *out) {
      *out = std::make_unique<CodeKernel>(region, code);
      return Status::ok();
    };
    return def;
  }
  Kernels kernels;
  for (const RegionStep &step : region->steps) {
    const auto kernel = step.op.selectKernel(registry, DeviceType::kGPU);
    if (!kernel) return noCode(step, reason);
    kernels.push_back(*kernel);
  }
  OPC_ASSIGN_OR_RETURN(Leavings leavings, Leavings::of(*region, kernels));
  def.create = [=](user_op::KernelCreateContext *, std::unique_ptr<user_op::OpKernel> *out) {
    *out = std::make_unique<StepsKernel>(region, kernels, leavings);
    return Status::ok();
  };
  return def;
}

} // namespace opc::runtime
