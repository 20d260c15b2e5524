// What a file of device code ends in: kernels for lists of element types. OPC_EACH_FLOAT(X) is X(f32, float), X(f64,
// double) and so on, with the name that the host asks for (kernelOf) and the type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define OPC_EACH_FLOAT(X) X(f32, float) X(f64, double) X(f16, float16) X(bf16, bfloat16)
#define OPC_EACH_INTEGER(X)                                                                                            \
  X(i8, int8_t)                                                                                                        \
  X(u8, uint8_t) X(i16, int16_t) X(u16, uint16_t) X(i32, int32_t) X(u32, uint32_t) X(i64, int64_t) X(u64, uint64_t)
#define OPC_EACH_NUMBER(X) OPC_EACH_FLOAT(X) OPC_EACH_INTEGER(X)
#define OPC_EACH_COMPUTED(X) OPC_EACH_NUMBER(X) X(bool, bool)

/// Where elements are only moved: by their bytes.
#define OPC_EACH_SIZE(X) X(1, uint8_t) X(2, uint16_t) X(4, uint32_t) X(8, uint64_t)

/// A kernel for blocks of 256 threads whose arguments are one struct: the function behind it, called with that.
#define OPC_KERNEL(kernel, Arguments, ...)                                                                             \
  extern "C" __global__ void __launch_bounds__(256, 1) kernel(const __grid_constant__ Arguments a) { __VA_ARGS__(a); }
