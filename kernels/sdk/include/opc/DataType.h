// Element types and device kinds, numbered as in OneFlow's protobufs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace opc {

enum DataType : int32_t {
  kInvalidDataType = 0,
  kChar = 1,
  kFloat = 2,
  kDouble = 3,
  kInt8 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kUInt8 = 7,
  kOFRecord = 8,
  kFloat16 = 9,
  kTensorBuffer = 10,
  kBFloat16 = 11,
  kBool = 12,
  kUInt16 = 13,
  kUInt32 = 14,
  kUInt64 = 15,
  kUInt128 = 16,
  kInt16 = 17,
  kInt128 = 18,
  kComplex32 = 19,
  kComplex64 = 20,
  kComplex128 = 21,
};

/// Bytes of one element; 0 for types without a fixed layout (kOFRecord, kTensorBuffer, kInvalidDataType).
size_t GetSizeOfDataType(DataType type);
/// "f32", "i64", "bf16", ...: the names used on the command line and in diagnostics.
const char *dataTypeName(DataType type);
/// "kFloat", "kInt64", ...: the names used in graph files.
const char *DataType_Name(DataType type);
/// The inverse of dataTypeName; also accepts numpy's ("float32") and the graph files' names. kInvalidDataType if
/// unknown.
DataType parseDataType(const std::string &name);

inline bool IsFloatingDataType(DataType t) { return t == kFloat || t == kDouble || t == kFloat16 || t == kBFloat16; }
inline bool IsIntegralDataType(DataType t) {
  return t == kInt8 || t == kInt32 || t == kInt64 || t == kUInt8 || t == kUInt16 || t == kUInt32 || t == kUInt64 ||
         t == kInt16;
}
/// True for the types that a tensor of a graph may have.
inline bool isTensorDataType(DataType t) { return IsFloatingDataType(t) || IsIntegralDataType(t) || t == kBool; }

enum class DeviceType : int32_t { kInvalidDevice = 0, kCPU = 1, kGPU = 2, kCUDA = 2 };

inline const char *DeviceTag(DeviceType d) {
  return d == DeviceType::kCPU ? "cpu" : d == DeviceType::kGPU ? "gpu" : "invalid_device";
}

/// IEEE binary16, stored as bits. Arithmetic happens in f32; conversion rounds to nearest, ties to even.
struct float16 {
  uint16_t bits = 0;
  float16() = default;
  explicit inline float16(float v);
  explicit inline operator float() const;
};

/// The upper half of an f32. Conversion rounds to nearest, ties to even; NaN stays NaN.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  explicit inline bfloat16(float v);
  explicit inline operator float() const;
};

namespace detail {
inline float bitsToFloat(uint32_t b) {
  float f;
  std::memcpy(&f, &b, 4);
  return f;
}
inline uint32_t floatToBits(float f) {
  uint32_t b;
  std::memcpy(&b, &f, 4);
  return b;
}
} // namespace detail

// The usual branch-light conversions: rescale by a power of two so that the hardware does the rounding of subnormals.
inline float16::float16(float v) {
  const uint32_t x = detail::floatToBits(v);
  const uint32_t sign = (x >> 16) & 0x8000u;
  const uint32_t mag = x & 0x7fffffffu;
  if (mag > 0x7f800000u) {
    bits = static_cast<uint16_t>(sign | 0x7e00u | ((mag >> 13) & 0x1ffu));
  } else if (mag >= 0x477ff000u) { // rounds to 65536 or more, or infinite
    bits = static_cast<uint16_t>(sign | 0x7c00u);
  } else if (mag < 0x38800000u) { // subnormal or zero: adding 0.5 puts the wanted bits into the low mantissa
    const float shifted = detail::bitsToFloat(mag) + 0.5f;
    bits = static_cast<uint16_t>(sign | (detail::floatToBits(shifted) - 0x3f000000u));
  } else {
    const uint32_t odd = (mag >> 13) & 1u;
    bits = static_cast<uint16_t>(sign | ((mag - 0x38000000u + 0xfffu + odd) >> 13));
  }
}
inline float16::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return detail::bitsToFloat(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const float f = static_cast<float>(mantissa) * 5.9604644775390625e-8f; // 2^-24
    return sign ? -f : f;
  }
  return detail::bitsToFloat(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}
inline bfloat16::bfloat16(float v) {
  const uint32_t x = detail::floatToBits(v);
  if ((x & 0x7fffffffu) > 0x7f800000u)
    bits = static_cast<uint16_t>((x >> 16) | 0x40u);
  else
    bits = static_cast<uint16_t>((x + 0x7fffu + ((x >> 16) & 1u)) >> 16);
}
inline bfloat16::operator float() const { return detail::bitsToFloat(static_cast<uint32_t>(bits) << 16); }

/// GetDataType<T>::value is the DataType of the C++ type T.
template <class T> struct GetDataType : std::integral_constant<DataType, kInvalidDataType> {};
template <> struct GetDataType<char> : std::integral_constant<DataType, kChar> {};
template <> struct GetDataType<float> : std::integral_constant<DataType, kFloat> {};
template <> struct GetDataType<double> : std::integral_constant<DataType, kDouble> {};
template <> struct GetDataType<int8_t> : std::integral_constant<DataType, kInt8> {};
template <> struct GetDataType<int16_t> : std::integral_constant<DataType, kInt16> {};
template <> struct GetDataType<int32_t> : std::integral_constant<DataType, kInt32> {};
template <> struct GetDataType<int64_t> : std::integral_constant<DataType, kInt64> {};
template <> struct GetDataType<uint8_t> : std::integral_constant<DataType, kUInt8> {};
template <> struct GetDataType<uint16_t> : std::integral_constant<DataType, kUInt16> {};
template <> struct GetDataType<uint32_t> : std::integral_constant<DataType, kUInt32> {};
template <> struct GetDataType<uint64_t> : std::integral_constant<DataType, kUInt64> {};
template <> struct GetDataType<bool> : std::integral_constant<DataType, kBool> {};
template <> struct GetDataType<float16> : std::integral_constant<DataType, kFloat16> {};
template <> struct GetDataType<bfloat16> : std::integral_constant<DataType, kBFloat16> {};

} // namespace opc
