// What the sources of built-in operators start from: the SDK's names, axes, and what most definitions have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"
#include "opc/StagedKernel.h"
#include "support/Axes.h"

namespace opc::ops {

using namespace user_op;

/// Whether input `arg`, if it is there, has this shape and type; `why` says behind it where they come from.
inline Maybe<void> expectIn(const InferContext *ctx, const std::string &arg, const TensorDesc &want,
                            const std::string &why = "") {
  if (!ctx->Has(arg) || ctx->In(arg) == want) return Maybe<void>::Ok();
  return Error::ShapeMismatch() << arg << " is " << ctx->In(arg).toString() << ", expected " << want.toString() << why;
}

/// The end of a shape rule: the output `arg` has this shape and type.
inline Maybe<void> setOut(InferContext *ctx, const std::string &arg, const TensorDesc &desc) {
  ctx->Out(arg) = desc;
  return Maybe<void>::Ok();
}

/// The inputs and outputs of an op that are one tensor each: .With(TensorArgs{{"x", "weight"}, {"y"}}).
struct TensorArgs {
  std::vector<std::string> inputs, outputs;
  void operator()(OpRegistry &op) const {
    for (const std::string &arg : inputs) op.Input(arg);
    for (const std::string &arg : outputs) op.Output(arg);
  }
};

/// The shape rule and the sharding rule of an op, what .Sharding takes: .With(rules(infer, "..., ... -> ...")).
template <class... Sharding> auto rules(TensorDescInferFn infer, Sharding... sharding) {
  return [=](OpRegistry &op) { op.SetTensorDescInferFn(infer).Sharding(sharding...); };
}

/// Kernels of one class on the CPU and on GPUs: its Bind asks isOnGpu(), or only copies and fills.
template <class K> auto onCpuAndGpu(const KernelOptions &options = {}) {
  return [=](OpRegistry &op) {
    op.Kernel<K>(options).template Kernel<K>(KernelOptions(options).Device(DeviceType::kGPU));
  };
}
/// The same for each type of a list, as .Kernel<K, Types>(arg, options) has it.
template <template <class> class K, class Types>
auto onCpuAndGpu(const std::string &arg, const KernelOptions &options = {}) {
  return [=](OpRegistry &op) {
    op.Kernel<K, Types>(arg, options).template Kernel<K, Types>(arg, KernelOptions(options).Device(DeviceType::kGPU));
  };
}

} // namespace opc::ops
