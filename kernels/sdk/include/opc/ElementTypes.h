// Lists of element types, as registrations of kernels name them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"

#include <type_traits>

namespace opc::user_op {

template <class... T> struct TypeList {};

/// Lists of element types, for Elementwise and for Kernel. In Elementwise f16 and bf16 compute in f32 and bool as u8,
/// so that a function used for it must give 0 or 1 for those.
namespace types {
/// Any list: types::Of<int32_t, int64_t>.
template <class... T> struct Of {
  using List = TypeList<T...>;
};
struct Floating {
  using List = TypeList<float, double, float16, bfloat16>;
};
struct Integral {
  using List = TypeList<int8_t, uint8_t, int32_t, int64_t>;
};
struct Numeric {
  using List = TypeList<float, double, float16, bfloat16, int8_t, uint8_t, int32_t, int64_t>;
};
struct Any {
  using List = TypeList<float, double, float16, bfloat16, int8_t, uint8_t, int32_t, int64_t, bool>;
};
struct IntegralOrBool {
  using List = TypeList<int8_t, uint8_t, int32_t, int64_t, bool>;
};
struct SignedNumeric {
  using List = TypeList<float, double, float16, bfloat16, int8_t, int32_t, int64_t>;
};
struct Bool {
  using List = TypeList<bool>;
};
} // namespace types

/// The type in which elements of T are computed: f32 for f16 and bf16.
template <class T>
using ComputeType = std::conditional_t<std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>, float, T>;

} // namespace opc::user_op
