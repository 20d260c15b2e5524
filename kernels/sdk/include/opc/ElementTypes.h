// Lists of element types, as registrations of kernels and dispatch name them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"

#include <vector>

namespace opc {

template <class... T> struct TypeList {
  using List = TypeList;
};

namespace detail {
template <class... Lists> struct JoinTypes;
template <class... T> struct JoinTypes<TypeList<T...>> {
  using type = TypeList<T...>;
};
template <class... A, class... B, class... Rest> struct JoinTypes<TypeList<A...>, TypeList<B...>, Rest...> {
  using type = typename JoinTypes<TypeList<A..., B...>, Rest...>::type;
};
template <ElementClass kind>
using TypesOfClass = typename JoinTypes<
#define OPC_ELEMENT(enumerator, number, cpp, ...)                                                                      \
  std::conditional_t<elementClass(enumerator) == kind, TypeList<cpp>, TypeList<>>,
    OPC_ELEMENT_TYPES(OPC_ELEMENT)
#undef OPC_ELEMENT
        TypeList<>>::type;
} // namespace detail

/// The lists in one: Join<types::Floating, types::Bool>.
template <class... Lists> using Join = typename detail::JoinTypes<Lists...>::type;

/// Lists of element types, for Elementwise, Kernel and visit. In Elementwise f16 and bf16 compute in f32 and bool as
/// u8, so that a function used for it must give 0 or 1 for those.
namespace types {
/// Any list: types::Of<int32_t, int64_t>.
template <class... T> using Of = TypeList<T...>;
using Floating = detail::TypesOfClass<ElementClass::kFloating>;
using Integers = detail::TypesOfClass<ElementClass::kInteger>;
using Numbers = Join<Floating, Integers>;
using Bool = TypeList<bool>;
/// What kernels compute with.
using Computed = Join<Numbers, Bool>;
/// What is only moved and converted.
using Storage = detail::TypesOfClass<ElementClass::kStorage>;
/// Every type that a tensor may have.
using All = Join<Computed, Storage>;

// The types of scalar functions.
using Integral = TypeList<int8_t, uint8_t, int32_t, int64_t>;
using Numeric = Join<Floating, Integral>;
using Any = Join<Numeric, Bool>;
using IntegralOrBool = Join<Integral, Bool>;
using SignedNumeric = Join<Floating, TypeList<int8_t, int32_t, int64_t>>;
} // namespace types

namespace detail {
template <class... T> std::vector<DataType> dataTypesOf(TypeList<T...>) { return {GetDataType<T>::value...}; }
} // namespace detail
/// The numbers of a list's types, in its order: for .Types() of sample cases, tests and messages.
template <class List> std::vector<DataType> dataTypes() { return detail::dataTypesOf(List()); }

namespace user_op {
using opc::TypeList;
namespace types = opc::types;

/// The type in which elements of T are computed: f32 for f16 and bf16.
template <class T>
using ComputeType = std::conditional_t<std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>, float, T>;
} // namespace user_op

} // namespace opc
