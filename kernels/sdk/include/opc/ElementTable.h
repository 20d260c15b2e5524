// The table of element types: the one place where a type is added (proto/graph.proto gives it the same number, which a
// test compares). Everything else, from the IR's types to the names in files, is read from here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Floats.h"
#include "opc/NarrowInteger.h"

/// X(enumerator, number, C++ type, name, numpy name, code in npy files, number in ONNX, name in safetensors files,
///   MLIR type, bits, class)
///
/// Numbers are OneFlow's; types that OneFlow lacks have numbers from 1000. Code "V": numpy writes bytes without a
/// meaning. Class: kFloating and kInteger compute; kStorage is moved, read, written and converted, and nothing else.
///
/// An element of fewer bits than 8 is a byte in memory, in plans and in npy files, as in ml_dtypes; ONNX's and
/// safetensors files have them packed, the first element in the lowest bits, a tensor padded to a whole byte.
/// safetensors has no names for integers under a byte: "I4", "U4", "I2" and "U2" are opc's.
#define OPC_ELEMENT_TYPES(X)                                                                                           \
  X(kFloat, 2, float, "f32", "float32", "f4", 1, "F32", Float32Type, 32, kFloating)                                    \
  X(kDouble, 3, double, "f64", "float64", "f8", 11, "F64", Float64Type, 64, kFloating)                                 \
  X(kFloat16, 9, ::opc::float16, "f16", "float16", "f2", 10, "F16", Float16Type, 16, kFloating)                        \
  X(kBFloat16, 11, ::opc::bfloat16, "bf16", "bfloat16", "V2", 16, "BF16", BFloat16Type, 16, kFloating)                 \
  X(kInt8, 4, int8_t, "i8", "int8", "i1", 3, "I8", IntegerType, 8, kInteger)                                           \
  X(kUInt8, 7, uint8_t, "u8", "uint8", "u1", 2, "U8", IntegerType, 8, kInteger)                                        \
  X(kInt16, 17, int16_t, "i16", "int16", "i2", 5, "I16", IntegerType, 16, kInteger)                                    \
  X(kUInt16, 13, uint16_t, "u16", "uint16", "u2", 4, "U16", IntegerType, 16, kInteger)                                 \
  X(kInt32, 5, int32_t, "i32", "int32", "i4", 6, "I32", IntegerType, 32, kInteger)                                     \
  X(kUInt32, 14, uint32_t, "u32", "uint32", "u4", 12, "U32", IntegerType, 32, kInteger)                                \
  X(kInt64, 6, int64_t, "i64", "int64", "i8", 7, "I64", IntegerType, 64, kInteger)                                     \
  X(kUInt64, 15, uint64_t, "u64", "uint64", "u8", 13, "U64", IntegerType, 64, kInteger)                                \
  X(kBool, 12, bool, "bool", "bool", "b1", 9, "BOOL", IntegerType, 8, kBool)                                           \
  X(kFloat8E4M3FN, 1000, ::opc::float8_e4m3fn, "f8e4m3fn", "float8_e4m3fn", "V1", 17, "F8_E4M3", Float8E4M3FNType, 8,  \
    kStorage)                                                                                                          \
  X(kFloat8E5M2, 1001, ::opc::float8_e5m2, "f8e5m2", "float8_e5m2", "V1", 19, "F8_E5M2", Float8E5M2Type, 8, kStorage)  \
  X(kFloat8E4M3FNUZ, 1002, ::opc::float8_e4m3fnuz, "f8e4m3fnuz", "float8_e4m3fnuz", "V1", 18, "F8_E4M3FNUZ",           \
    Float8E4M3FNUZType, 8, kStorage)                                                                                   \
  X(kFloat8E5M2FNUZ, 1003, ::opc::float8_e5m2fnuz, "f8e5m2fnuz", "float8_e5m2fnuz", "V1", 20, "F8_E5M2FNUZ",           \
    Float8E5M2FNUZType, 8, kStorage)                                                                                   \
  X(kFloat8E8M0, 1004, ::opc::float8_e8m0, "f8e8m0", "float8_e8m0fnu", "V1", 24, "F8_E8M0", Float8E8M0FNUType, 8,      \
    kStorage)                                                                                                          \
  X(kFloat4E2M1, 1005, ::opc::float4_e2m1, "f4e2m1", "float4_e2m1fn", "V1", 23, "F4", Float4E2M1FNType, 4, kStorage)   \
  X(kInt4, 1006, ::opc::narrow_i4, "i4", "int4", "V1", 22, "I4", IntegerType, 4, kStorage)                             \
  X(kUInt4, 1007, ::opc::narrow_u4, "u4", "uint4", "V1", 21, "U4", IntegerType, 4, kStorage)                           \
  X(kInt2, 1008, ::opc::narrow_i2, "i2", "int2", "V1", 26, "I2", IntegerType, 2, kStorage)                             \
  X(kUInt2, 1009, ::opc::narrow_u2, "u2", "uint2", "V1", 25, "U2", IntegerType, 2, kStorage)

/// What OneFlow's enumeration has besides; no tensor of a graph has them. X(enumerator, number, name, numpy name,
/// bytes)
#define OPC_OTHER_DATA_TYPES(X)                                                                                        \
  X(kInvalidDataType, 0, "invalid", "", 0)                                                                             \
  X(kChar, 1, "char", "", 1)                                                                                           \
  X(kOFRecord, 8, "ofrecord", "", 0)                                                                                   \
  X(kTensorBuffer, 10, "tensor_buffer", "", 0)                                                                         \
  X(kUInt128, 16, "u128", "", 16)                                                                                      \
  X(kInt128, 18, "i128", "", 16)                                                                                       \
  X(kComplex32, 19, "c32", "", 4)                                                                                      \
  X(kComplex64, 20, "c64", "complex64", 8)                                                                             \
  X(kComplex128, 21, "c128", "complex128", 16)
