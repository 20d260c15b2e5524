// The GPU kernels of ops that have a scalar function: found by the function, for built-in ops, derived gradients and
// plugins alike.
// SPDX-License-Identifier: Apache-2.0
#include "CudaLaunch.h"
#include "DeviceKernels.h"
#include "ElementwiseKey.h"
#include "ElementwiseWalk.h"
#include "KernelImages.h"
#include "opc/Convert.h"
#include "opc/Dispatch.h"
#include "opc/Op.h"

#include <cstring>

namespace opc::cuda {
namespace {

using scalar::ScalarProgram;
using user_op::BoundKernel;
using user_op::KernelComputeContext;
using user_op::KernelDef;
using user_op::OpDef;
using user_op::Tensor;

void putParameter(unsigned char *block, size_t k, const scalar::ScalarValue &v, DataType type) {
  visit<types::Computed>(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = std::conditional_t<isShortFloat<T>, float, std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>>;
    const C value = v.as<C>();
    std::memcpy(block + k * sizeof(C), &value, sizeof value);
    return true;
  });
}

class BoundElementwise final : public BoundKernel {
public:
  void Run(DeviceCtx *ctx) override {
    if (arguments.n > 0) CudaLaunch::of(ctx).run(function, grid, {kBlock, 1, 1}, 0, arguments);
  }
  ElementwiseArguments arguments{};
  CudaFunction function;
  Dim3 grid;
};

class ElementwiseKernel final : public user_op::OpKernel {
public:
  ElementwiseKernel(std::shared_ptr<const ScalarProgram> program, std::vector<std::string> inputs, std::string output,
                    DataType type)
      : program_(std::move(program)), inputs_(std::move(inputs)), output_(std::move(output)), type_(type) {}
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<BoundKernel> Bind(user_op::KernelBindContext *ctx) const override { return make(ctx); }
  void Compute(KernelComputeContext *ctx) const override { make(ctx)->Run(ctx->device_ctx()); }

private:
  std::unique_ptr<BoundElementwise> make(KernelComputeContext *ctx) const {
    auto bound = std::make_unique<BoundElementwise>();
    ElementwiseArguments &a = bound->arguments;
    Tensor *out = ctx->Tensor4ArgNameAndIndex(output_, 0);
    std::vector<Shape> shapes;
    bool isAligned = true;
    auto checkAlignment = [&](const void *p) { isAligned = isAligned && reinterpret_cast<uintptr_t>(p) % 16 == 0; };
    for (const std::string &name : inputs_) {
      const Tensor *t = ctx->Tensor4ArgNameAndIndex(name, 0);
      a.in[shapes.size()] = t->raw_dptr();
      checkAlignment(t->raw_dptr());
      shapes.emplace_back(t->shape());
    }
    a.out = out->mut_raw_dptr();
    checkAlignment(a.out);
    a.isAligned = isAligned;
    walk(Shape(out->shape()), shapes, &a);
    if (program_->attributes) {
      const auto values = program_->attributes(ctx->user_op_conf(), type_);
      for (size_t i = 0; i < values.size(); ++i) putParameter(a.parameters, inputs_.size() + i, values[i], type_);
    }
    const std::string prefix = elementwiseKernelPrefix(*program_, type_, out->data_type() == kBool);
    bound->function = CudaLaunch::of(ctx->device_ctx()).function(kernelWithPrefix(prefix));
    const auto width = static_cast<int64_t>(16 / GetSizeOfDataType(type_));
    bound->grid = blocksFor(a.rank == 0 && isAligned ? (a.n + width - 1) / width : a.n);
    return bound;
  }

  std::shared_ptr<const ScalarProgram> program_;
  std::vector<std::string> inputs_;
  std::string output_;
  DataType type_;
};

/// A kernel for each of the op's on the CPU whose function this build has device code for.
void addKernels(const OpDef &op, const std::vector<const KernelDef *> &known, std::vector<KernelDef> *more) {
  if (!op.scalar || op.outputs.size() != 1) return;
  std::vector<std::string> inputs;
  for (const user_op::ArgDef &a : op.inputs) inputs.push_back(a.name);
  for (const KernelDef *k : known) {
    const KernelTarget target = kernelTarget(*k);
    const DataType type = parseDataType(target.dtype);
    if (target.device != "cpu" || type == kInvalidDataType) continue;
    if (kernelWithPrefix(elementwiseKernelPrefix(*op.scalar, type, false)).empty() &&
        kernelWithPrefix(elementwiseKernelPrefix(*op.scalar, type, true)).empty())
      continue;
    KernelDef kernel = *k; // where it may work in place, its priority, where it is from
    kernel.condition = (user_op::HobDeviceType() == DeviceType::kGPU) & (user_op::HobDataType(inputs[0], 0) == type);
    kernel.create = [program = op.scalar, inputs, output = op.outputs[0].name,
                     type](user_op::KernelCreateContext *, std::unique_ptr<user_op::OpKernel> *out) {
      *out = std::make_unique<ElementwiseKernel>(program, inputs, output, type);
      return Status();
    };
    kernel.init = user_op::detail::kernelInit; // those of this library, not of a plugin's
    kernel.bind = user_op::detail::kernelBind;
    kernel.compute = user_op::detail::kernelCompute;
    kernel.run = user_op::detail::kernelRun;
    more->push_back(std::move(kernel));
  }
}

[[maybe_unused]] const bool isRegistered = (registerDeviceKernels(&addKernels), true);

} // namespace
} // namespace opc::cuda
