// Functions of two elements, as classes with a static Invoke; comparisons give int8_t.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/kernel/kernel_util.h"

#define ARITHMETIC_BINARY_FUNC_NAME_SEQ (Add)(Sub)(Mul)(Div)(Min)(Max)(FloorMod)
#define LOGICAL_BINARY_FUNC_NAME_SEQ (EQ)(NE)(GT)(GE)(LT)(LE)(AND)
#define BINARY_FUNC_NAME_SEQ ARITHMETIC_BINARY_FUNC_NAME_SEQ LOGICAL_BINARY_FUNC_NAME_SEQ
#define REDUCE_BINARY_FUNC_NAME_SEQ (Sum)(Max)(Min)(Prod)(Any)(All)
#define PREPEND_PREFIX_BINARY_FUNC(name) OPC_PP_PASTE(BinaryFunc, name)
#define ARITHMETIC_BINARY_FUNC_SEQ OF_PP_SEQ_MAP(PREPEND_PREFIX_BINARY_FUNC, ARITHMETIC_BINARY_FUNC_NAME_SEQ)
#define LOGICAL_BINARY_FUNC_SEQ OF_PP_SEQ_MAP(PREPEND_PREFIX_BINARY_FUNC, LOGICAL_BINARY_FUNC_NAME_SEQ)
#define BINARY_FUNC_SEQ ARITHMETIC_BINARY_FUNC_SEQ LOGICAL_BINARY_FUNC_SEQ
#define REDUCE_BINARY_FUNC_SEQ OF_PP_SEQ_MAP(PREPEND_PREFIX_BINARY_FUNC, REDUCE_BINARY_FUNC_NAME_SEQ)

namespace oneflow {

#define OPC_BINARY_FUNC(name, Result, expression)                                                                      \
  template <class T> struct BinaryFunc##name final {                                                                   \
    static OF_DEVICE_FUNC Result Invoke(const T x, const T y) { return expression; }                                   \
  };                                                                                                                   \
  template <class T> struct BinaryFunc##name<const T> final {                                                          \
    static OF_DEVICE_FUNC auto Invoke(const T x, const T y) { return BinaryFunc##name<T>::Invoke(x, y); }              \
  };
OPC_BINARY_FUNC(Add, T, static_cast<T>(x + y))
OPC_BINARY_FUNC(Sum, T, static_cast<T>(x + y))
OPC_BINARY_FUNC(Sub, T, static_cast<T>(x - y))
OPC_BINARY_FUNC(Mul, T, static_cast<T>(x *y))
OPC_BINARY_FUNC(Prod, T, static_cast<T>(x *y))
OPC_BINARY_FUNC(Div, T, static_cast<T>(x / y))
OPC_BINARY_FUNC(Min, T, x < y ? x : y)
OPC_BINARY_FUNC(Max, T, x > y ? x : y)
OPC_BINARY_FUNC(EQ, int8_t, x == y)
OPC_BINARY_FUNC(NE, int8_t, x != y)
OPC_BINARY_FUNC(GT, int8_t, x > y)
OPC_BINARY_FUNC(GE, int8_t, x >= y)
OPC_BINARY_FUNC(LT, int8_t, x < y)
OPC_BINARY_FUNC(LE, int8_t, x <= y)
OPC_BINARY_FUNC(AND, int8_t, x &&y)
OPC_BINARY_FUNC(All, int8_t, x &&y)
OPC_BINARY_FUNC(Any, int8_t, x || y)
#undef OPC_BINARY_FUNC

/// The remainder that has the sign of y.
template <class T> struct BinaryFuncFloorMod final {
  static OF_DEVICE_FUNC T Invoke(const T x, const T y) {
    T rest;
    if constexpr (std::is_floating_point_v<T>)
      rest = std::fmod(x, y);
    else
      rest = static_cast<T>(x % y);
    return rest != T(0) && (y < T(0)) != (rest < T(0)) ? static_cast<T>(rest + y) : rest;
  }
};

template <template <class> class Func, class T> struct BinaryFuncTrait final {
  using return_type = std::remove_const_t<decltype(Func<T>::Invoke(std::declval<T>(), std::declval<T>()))>;
};

namespace detail {
/// The element that changes nothing in a reduction by Func.
template <template <class> class Func, class T> struct UnitOf;
template <class T> struct UnitOf<BinaryFuncSum, T> {
  static T value() { return T(0); }
};
template <class T> struct UnitOf<BinaryFuncAny, T> {
  static T value() { return T(0); }
};
template <class T> struct UnitOf<BinaryFuncProd, T> {
  static T value() { return T(1); }
};
template <class T> struct UnitOf<BinaryFuncAll, T> {
  static T value() { return T(1); }
};
template <class T> struct UnitOf<BinaryFuncMax, T> {
  static T value() { return GetMinVal<T>(); }
};
template <class T> struct UnitOf<BinaryFuncMin, T> {
  static T value() { return GetMaxVal<T>(); }
};
} // namespace detail

} // namespace oneflow
