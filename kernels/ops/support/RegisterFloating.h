// Registration of one CPU kernel template for all floating types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

/// Registers `Kernel<float>` for f32, f16 and bf16 and `Kernel<double>` for f64, selected by the dtype of `arg`.
/// The kernel reaches its tensors through StagedTensors, which convert the half types.
#define OPC_REGISTER_FLOATING_CPU_KERNELS(op, Kernel, arg)                                                             \
  OPC_REGISTER_CPU_KERNEL(op, Kernel<float>, arg, ::opc::kFloat);                                                      \
  OPC_REGISTER_CPU_KERNEL(op, Kernel<double>, arg, ::opc::kDouble);                                                    \
  OPC_REGISTER_CPU_KERNEL(op, Kernel<float>, arg, ::opc::kFloat16);                                                    \
  OPC_REGISTER_CPU_KERNEL(op, Kernel<float>, arg, ::opc::kBFloat16)

#define OPC_REGISTER_CPU_KERNEL(op, Kernel, arg, type)                                                                 \
  REGISTER_USER_KERNEL(op).SetCreateFn<Kernel>().SetIsMatchedHob(                                                      \
      (::opc::user_op::HobDeviceType() == ::opc::DeviceType::kCPU) & (::opc::user_op::HobDataType(arg, 0) == type))
