// Functions that choose a template instance by values known at run time.
//
// DEFINE_STATIC_SWITCH_FUNC(result, F, MAKE, choices...) defines SwitchF(SwitchCase(values...), arguments...). For each
// combination of the choices it compares the values and calls MAKE(F, types...), an expression that names a function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/util.h"

template <class... Values> auto SwitchCase(Values &&...values) {
  return std::make_tuple(std::forward<Values>(values)...);
}

// A choice is (type of the value, sequence of (what MAKE gets, the value)).
#define MAKE_TYPED_CTRV_SEQ(type, pairs) (type, pairs)
#define MAKE_DATA_TYPE_CTRV_SEQ(types) MAKE_TYPED_CTRV_SEQ(DataType, types)
#define MAKE_DEVICE_TYPE_CTRV_SEQ(devices) MAKE_TYPED_CTRV_SEQ(DeviceType, OPC_PP_SWITCH_TWICE(devices))
#define MAKE_NDIM_CTRV_SEQ(ranks) MAKE_TYPED_CTRV_SEQ(int32_t, OPC_PP_SWITCH_TWICE(ranks))
#define OPC_PP_SWITCH_TWICE(seq) OF_PP_FOR_EACH_TUPLE(OPC_PP_SWITCH_PAIR, seq)
#define OPC_PP_SWITCH_PAIR(x) ((x, x))

#define DEFINE_STATIC_SWITCH_FUNC(result, function, make, ...)                                                         \
  template <class OpcKey, class... OpcArgs> static result Switch##function(const OpcKey &opcKey, OpcArgs &&...args) {  \
    OPC_PP_PASTE(OPC_PP_SWITCH_, OF_PP_VARIADIC_SIZE(__VA_ARGS__))(                                                    \
        function, make, __VA_ARGS__) throw ::opc::ContractError("Switch" #function ": no function for these types");   \
  }
#define OPC_PP_SWITCH_1(function, make, a)                                                                             \
  OF_PP_SEQ_PRODUCT_FOR_EACH_TUPLE(OPC_PP_SWITCH_CASE_1, (function), (make), OF_PP_PAIR_SECOND(a))
#define OPC_PP_SWITCH_2(function, make, a, b)                                                                          \
  OF_PP_SEQ_PRODUCT_FOR_EACH_TUPLE(OPC_PP_SWITCH_CASE_2, (function), (make), OF_PP_PAIR_SECOND(a), OF_PP_PAIR_SECOND(b))
#define OPC_PP_SWITCH_3(function, make, a, b, c)                                                                       \
  OF_PP_SEQ_PRODUCT_FOR_EACH_TUPLE(OPC_PP_SWITCH_CASE_3, (function), (make), OF_PP_PAIR_SECOND(a),                     \
                                   OF_PP_PAIR_SECOND(b), OF_PP_PAIR_SECOND(c))
#define OPC_PP_SWITCH_4(function, make, a, b, c, d)                                                                    \
  OF_PP_SEQ_PRODUCT_FOR_EACH_TUPLE(OPC_PP_SWITCH_CASE_4, (function), (make), OF_PP_PAIR_SECOND(a),                     \
                                   OF_PP_PAIR_SECOND(b), OF_PP_PAIR_SECOND(c), OF_PP_PAIR_SECOND(d))
#define OPC_PP_SWITCH_CASE_1(function, make, a)                                                                        \
  if (opcKey == std::make_tuple(OF_PP_PAIR_SECOND(a)))                                                                 \
    return make(function, OF_PP_PAIR_FIRST(a))(std::forward<OpcArgs>(args)...);
#define OPC_PP_SWITCH_CASE_2(function, make, a, b)                                                                     \
  if (opcKey == std::make_tuple(OF_PP_PAIR_SECOND(a), OF_PP_PAIR_SECOND(b)))                                           \
    return make(function, OF_PP_PAIR_FIRST(a), OF_PP_PAIR_FIRST(b))(std::forward<OpcArgs>(args)...);
#define OPC_PP_SWITCH_CASE_3(function, make, a, b, c)                                                                  \
  if (opcKey == std::make_tuple(OF_PP_PAIR_SECOND(a), OF_PP_PAIR_SECOND(b), OF_PP_PAIR_SECOND(c)))                     \
    return make(function, OF_PP_PAIR_FIRST(a), OF_PP_PAIR_FIRST(b),                                                    \
                OF_PP_PAIR_FIRST(c))(std::forward<OpcArgs>(args)...);
#define OPC_PP_SWITCH_CASE_4(function, make, a, b, c, d)                                                               \
  if (opcKey ==                                                                                                        \
      std::make_tuple(OF_PP_PAIR_SECOND(a), OF_PP_PAIR_SECOND(b), OF_PP_PAIR_SECOND(c), OF_PP_PAIR_SECOND(d)))         \
    return make(function, OF_PP_PAIR_FIRST(a), OF_PP_PAIR_FIRST(b), OF_PP_PAIR_FIRST(c),                               \
                OF_PP_PAIR_FIRST(d))(std::forward<OpcArgs>(args)...);
