// The lists of element types that registrations are multiplied by: ((C++ type, DataType))...
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/preprocessor.h"

#define FLOATING_DATA_TYPE_SEQ                                                                                         \
  OF_PP_MAKE_TUPLE_SEQ(float, DataType::kFloat) OF_PP_MAKE_TUPLE_SEQ(double, DataType::kDouble)
#define FLOAT16_DATA_TYPE_SEQ OF_PP_MAKE_TUPLE_SEQ(float16, DataType::kFloat16)
#define INDEX_DATA_TYPE_SEQ                                                                                            \
  OF_PP_MAKE_TUPLE_SEQ(int32_t, DataType::kInt32) OF_PP_MAKE_TUPLE_SEQ(int64_t, DataType::kInt64)
#define SIGNED_INT_DATA_TYPE_SEQ OF_PP_MAKE_TUPLE_SEQ(int8_t, DataType::kInt8) INDEX_DATA_TYPE_SEQ
#define UNSIGNED_INT_DATA_TYPE_SEQ OF_PP_MAKE_TUPLE_SEQ(uint8_t, DataType::kUInt8)
#define INT_DATA_TYPE_SEQ SIGNED_INT_DATA_TYPE_SEQ
#define CHAR_DATA_TYPE_SEQ OF_PP_MAKE_TUPLE_SEQ(char, DataType::kChar)
#define ARITHMETIC_DATA_TYPE_SEQ FLOATING_DATA_TYPE_SEQ INT_DATA_TYPE_SEQ
#define POD_DATA_TYPE_SEQ ARITHMETIC_DATA_TYPE_SEQ CHAR_DATA_TYPE_SEQ UNSIGNED_INT_DATA_TYPE_SEQ
#define IMAGE_DATA_TYPE_SEQ                                                                                            \
  OF_PP_MAKE_TUPLE_SEQ(uint8_t, DataType::kUInt8) OF_PP_MAKE_TUPLE_SEQ(float, DataType::kFloat)
#ifdef WITH_CUDA
#define HALF_DATA_TYPE_SEQ OF_PP_MAKE_TUPLE_SEQ(half, DataType::kFloat16)
#endif

/// The devices that a registration is multiplied by. The compat headers compute on the CPU.
#define DEVICE_TYPE_SEQ OF_PP_MAKE_TUPLE_SEQ(DeviceType::kCPU)
