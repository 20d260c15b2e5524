// From a DataType to the C++ type: the one place that does it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/ElementTypes.h"

namespace opc {

/// A C++ type as a value.
template <class T> struct TypeTag {
  using type = T;
};

namespace detail {
template <class F, class T, class... Rest> constexpr auto visitTypes(DataType type, F &f, TypeList<T, Rest...>) {
  using R = decltype(f(TypeTag<T>()));
  if constexpr (std::is_void_v<R>) {
    if (type == GetDataType<T>::value) return f(TypeTag<T>());
    (void)((type == GetDataType<Rest>::value && (f(TypeTag<Rest>()), true)) || ...);
  } else {
    R result{};
    if (type == GetDataType<T>::value) return result = f(TypeTag<T>());
    (void)((type == GetDataType<Rest>::value && (result = f(TypeTag<Rest>()), true)) || ...);
    return result;
  }
}
} // namespace detail

/// Calls f(TypeTag<T>()) with the C++ type of `type` and returns what it returns. For types that are not in the list it
/// calls nothing and returns a value-initialized result: false, null, empty.
///
///   visit<types::Floating>(type, [&](auto tag) { run<typename decltype(tag)::type>(); });
template <class List = types::All, class F> constexpr auto visit(DataType type, F &&f) {
  return detail::visitTypes(type, f, List());
}

/// True when the list has the type.
template <class List> constexpr bool contains(DataType type) {
  return visit<List>(type, [](auto) { return true; });
}

} // namespace opc
