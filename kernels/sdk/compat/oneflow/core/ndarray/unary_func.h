// Functions of an element, as classes with a static Invoke.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/kernel/kernel_util.h"

#define ARITHMETIC_UNARY_FUNC_NAME_SEQ (Identity)(Negative)(Exp)
#define PREPEND_PREFIX_UNARY_FUNC(name) OPC_PP_PASTE(UnaryFunc, name)
#define ARITHMETIC_UNARY_FUNC_SEQ OF_PP_SEQ_MAP(PREPEND_PREFIX_UNARY_FUNC, ARITHMETIC_UNARY_FUNC_NAME_SEQ)

namespace oneflow {

template <class T> struct UnaryFuncIdentity final {
  static OF_DEVICE_FUNC T Invoke(const T x) { return x; }
};
template <class T> struct UnaryFuncNegative final {
  static OF_DEVICE_FUNC T Invoke(const T x) { return static_cast<T>(-x); }
};
template <class T> struct UnaryFuncExp final {
  static OF_DEVICE_FUNC T Invoke(const T x) { return static_cast<T>(std::exp(x)); }
};
template <template <class> class Func, class T> struct UnaryFuncTrait final {
  using return_type = std::remove_const_t<decltype(Func<T>::Invoke(std::declval<T>()))>;
};

} // namespace oneflow
