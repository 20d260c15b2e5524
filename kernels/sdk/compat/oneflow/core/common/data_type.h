// Questions about element types, and their least and greatest values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/data_type_seq.h"
#include "oneflow/core/common/util.h"

#ifdef __CUDACC__
#define OF_DEVICE_FUNC __device__ __host__ __forceinline__
#else
#define OF_DEVICE_FUNC inline
#endif

namespace opc {
/// Two axes are equal when both are the same number, or neither is one.
inline bool operator==(const OptInt64 &a, const OptInt64 &b) {
  return a.has_value() == b.has_value() && (!a.has_value() || a.value() == b.value());
}
inline bool operator!=(const OptInt64 &a, const OptInt64 &b) { return !(a == b); }
inline std::ostream &operator<<(std::ostream &out, DeviceType device) { return out << static_cast<int>(device); }
} // namespace opc

namespace oneflow {

/// binary16 as sources compute with it: it becomes an f32 by itself, and is made of any number.
struct float16 : ::opc::float16 {
  float16() = default;
  float16(::opc::float16 v) : ::opc::float16(v) {}
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  float16(T v) : ::opc::float16(static_cast<float>(v)) {}
  operator float() const { return static_cast<float>(static_cast<const ::opc::float16 &>(*this)); }
  float16 &operator+=(float v) { return *this = static_cast<float>(*this) + v; }
  float16 &operator-=(float v) { return *this = static_cast<float>(*this) - v; }
  float16 &operator*=(float v) { return *this = static_cast<float>(*this) * v; }
  float16 &operator/=(float v) { return *this = static_cast<float>(*this) / v; }
};

} // namespace oneflow

template <> struct opc::GetDataType<oneflow::float16> : std::integral_constant<opc::DataType, opc::kFloat16> {};

namespace oneflow {

template <class T> struct IsFloating : std::is_floating_point<T> {};
template <class T> struct IsFloat16 : std::is_same<T, float16> {};
template <class T>
struct IsIntegral
    : std::bool_constant<std::is_same_v<T, int8_t> || std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>> {};

inline bool IsIndexDataType(DataType type) { return type == kInt32 || type == kInt64; }
/// Is it a type whose elements are plain bytes?
inline bool IsPODDataType(DataType type) { return GetSizeOfDataType(type) > 0; }

template <class T> OF_DEVICE_FUNC T GetZeroVal() { return static_cast<T>(0); }
template <class T> OF_DEVICE_FUNC T GetOneVal() { return static_cast<T>(1); }
/// The greatest and the least finite number of T.
template <class T> inline T GetMaxVal() { return std::numeric_limits<T>::max(); }
template <class T> inline T GetMinVal() { return std::numeric_limits<T>::lowest(); }
template <> inline float16 GetMaxVal<float16>() { return float16(65504.f); }
template <> inline float16 GetMinVal<float16>() { return float16(-65504.f); }

template <class T> const T *GetZeroPtr() {
  static const T zero = GetZeroVal<T>();
  return &zero;
}
template <class T> const T *GetOnePtr() {
  static const T one = GetOneVal<T>();
  return &one;
}

/// The type that a device computes T in.
template <DeviceType device, class T> struct DevDType {
  using type = T;
};

namespace detail {
template <DataType type> struct TypeOf;
#define OPC_ELEMENT(enumerator, number, cpp, ...)                                                                      \
  template <> struct TypeOf<enumerator> {                                                                              \
    using type = cpp;                                                                                                  \
  };
OPC_ELEMENT_TYPES(OPC_ELEMENT)
#undef OPC_ELEMENT
template <> struct TypeOf<kChar> {
  using type = char;
};
} // namespace detail
/// The C++ type of a DataType.
template <DataType type> using DataTypeToType = typename detail::TypeOf<type>::type;

/// Fails unless elements of `type` may be read as T.
template <class T> void CheckDataType(DataType type) {
  CHECK(std::is_void_v<T> || (std::is_same_v<T, char>) || type == kChar || type == GetDataType<T>::value)
      << "the elements are " << dataTypeName(type) << ", read as " << dataTypeName(GetDataType<T>::value);
}

} // namespace oneflow
