// OneFlow's preprocessor: tuples (a, b), sequences of tuples ((a, b))((c, d)), and a macro applied to each of them.
//
// A sequence has at most 64 elements and a product at most seven sequences; longer ones are an error. An element is
// what stands between the parentheses: (float, kFloat) in ((float, kFloat)), Add in (Add).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define OF_PP_CAT(a, b) OPC_PP_CAT_0(a, b)
#define OPC_PP_CAT_0(a, b) a##b
#define OF_PP_STRINGIZE(x) OPC_PP_STRINGIZE_0(x)
#define OPC_PP_STRINGIZE_0(x) #x

// Tuples.
#define OF_PP_PAIR_FIRST(pair) OPC_PP_FIRST_0 pair
#define OF_PP_PAIR_SECOND(pair) OPC_PP_SECOND_0 pair
#define OPC_PP_FIRST_0(a, b) a
#define OPC_PP_SECOND_0(a, b) b
#define OF_PP_VARIADIC_SIZE(...) OPC_PP_SIZE_0(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1)
#define OPC_PP_SIZE_0(a, b, c, d, e, f, g, h, size, ...) size
#define OF_PP_TUPLE_SIZE(tuple) OF_PP_VARIADIC_SIZE tuple
#define OF_PP_TUPLE_ELEM(n, tuple) OPC_PP_PASTE(OPC_PP_ELEM_, n) tuple
#define OPC_PP_ELEM_0(a, ...) a
#define OPC_PP_ELEM_1(a, b, ...) b
#define OPC_PP_ELEM_2(a, b, c, ...) c
#define OPC_PP_ELEM_3(a, b, c, d, ...) d
#define OF_PP_TUPLE_PUSH_FRONT(tuple, x) (x, OPC_PP_UNPACK tuple)
#define OPC_PP_UNPACK(...) __VA_ARGS__

// Sequences.
#define OF_PP_MAKE_TUPLE_SEQ(...) ((__VA_ARGS__))
#define OF_PP_ATOMIC_TO_TUPLE(x) (x)
/// macro(a, b) for each tuple (a, b).
#define OF_PP_FOR_EACH_TUPLE(macro, seq) OPC_PP_EACH(OPC_PP_CALL_TUPLE, macro, seq)
#define OF_PP_OUTTER_FOR_EACH_TUPLE(macro, seq) OPC_PP_OUTER_EACH(OPC_PP_CALL_TUPLE, macro, seq)
/// macro(x) for each element x.
#define OF_PP_FOR_EACH_ATOMIC(macro, seq) OPC_PP_EACH(OPC_PP_CALL_ATOM, macro, seq)
/// (macro(x)) for each element x: a sequence again.
#define OF_PP_SEQ_MAP(macro, seq) OPC_PP_EACH(OPC_PP_CALL_MAP, macro, seq)
/// macro(x, y, ...) for each x of the first sequence, y of the second, and so on; the last one runs fastest.
#define OF_PP_SEQ_PRODUCT_FOR_EACH_TUPLE(macro, ...)                                                                   \
  OPC_PP_PASTE(OPC_PP_PRODUCT_, OF_PP_VARIADIC_SIZE(__VA_ARGS__))(OPC_PP_CALL_PRODUCT, (macro), __VA_ARGS__)
/// ((x, y)) for each x of the first sequence and y of the second: a sequence of tuples.
#define OF_PP_SEQ_PRODUCT(...) OF_PP_SEQ_PRODUCT_FOR_EACH_TUPLE(OF_PP_MAKE_TUPLE_SEQ, __VA_ARGS__)
#define OF_PP_SEQ_SIZE(seq) (0 OPC_PP_EACH(OPC_PP_CALL_COUNT, , seq))

// What is done with an element of a loop.
#define OPC_PP_CALL_TUPLE(macro, element) macro element
#define OPC_PP_CALL_ATOM(macro, element) macro(element)
#define OPC_PP_CALL_MAP(macro, element) (macro(element))
#define OPC_PP_CALL_COUNT(unused, element) +1
#define OPC_PP_CALL_PRODUCT(list) OPC_PP_CALL_LIST list
#define OPC_PP_CALL_LIST(macro, ...) macro(__VA_ARGS__)

// A second pair of pasting macros: the first may be in use by whoever calls what is here.
#define OPC_PP_PASTE(a, b) OPC_PP_PASTE_0(a, b)
#define OPC_PP_PASTE_0(a, b) a##b

// The first element and the rest of a sequence. OPC_PP_IS_END gives 1 for an empty one and 0 for any other.
#define OPC_PP_HEAD(seq) OPC_PP_HEAD_1(OPC_PP_HEAD_0 seq)
#define OPC_PP_HEAD_0(...) (__VA_ARGS__),
#define OPC_PP_HEAD_1(...) OPC_PP_HEAD_2(__VA_ARGS__, )
#define OPC_PP_HEAD_2(first, ...) OPC_PP_UNPACK first
#define OPC_PP_EAT(...)
#define OPC_PP_TAIL(seq) OPC_PP_PASTE(OPC_PP_TAIL_, OPC_PP_IS_END(seq))(seq)
#define OPC_PP_TAIL_0(seq) OPC_PP_EAT seq
#define OPC_PP_TAIL_1(seq)
#define OPC_PP_IS_END(seq) OPC_PP_IS_END_1(OPC_PP_IS_END_0 seq, 1, )
#define OPC_PP_IS_END_0(...) , 0,
#define OPC_PP_IS_END_1(...) OPC_PP_IS_END_2(__VA_ARGS__)
#define OPC_PP_IS_END_2(skipped, answer, ...) answer
#define OPC_PP_TAIL2(seq) OPC_PP_TAIL(OPC_PP_TAIL(seq))
#define OPC_PP_TAIL4(seq) OPC_PP_TAIL2(OPC_PP_TAIL2(seq))
#define OPC_PP_TAIL8(seq) OPC_PP_TAIL4(OPC_PP_TAIL4(seq))
#define OPC_PP_TAIL16(seq) OPC_PP_TAIL8(OPC_PP_TAIL8(seq))
#define OPC_PP_TAIL32(seq) OPC_PP_TAIL16(OPC_PP_TAIL16(seq))

/// What a loop over more than 64 elements ends with.
#define OPC_PP_TOO_LONG(seq) OPC_PP_PASTE(OPC_PP_TOO_LONG_, OPC_PP_IS_END(seq))
#define OPC_PP_TOO_LONG_1
#define OPC_PP_TOO_LONG_0 static_assert(false, "a sequence of OF_PP_ macros has more than 64 elements");

// A macro is not expanded within itself, so every loop that may stand in another has macros of its own, in blocks of 1,
// 4 and 16 elements. NAME1_0 is what is done with the first element of `seq`.
#define OPC_PP_EACH(f, arg, seq) OPC_PP_E64(f, arg, seq)
#define OPC_PP_E1_0(f, arg, seq) f(arg, OPC_PP_HEAD(seq))
#define OPC_PP_E64(f, arg, seq)                                                                                        \
  OPC_PP_E16(f, arg, seq)                                                                                              \
  OPC_PP_E16(f, arg, OPC_PP_TAIL16(seq))                                                                               \
  OPC_PP_E16(f, arg, OPC_PP_TAIL32(seq))                                                                               \
  OPC_PP_E16(f, arg, OPC_PP_TAIL16(OPC_PP_TAIL32(seq)))                                                                \
  OPC_PP_TOO_LONG(OPC_PP_TAIL32(OPC_PP_TAIL32(seq)))
#define OPC_PP_E16(f, arg, seq)                                                                                        \
  OPC_PP_E4(f, arg, seq)                                                                                               \
  OPC_PP_E4(f, arg, OPC_PP_TAIL4(seq))                                                                                 \
  OPC_PP_E4(f, arg, OPC_PP_TAIL8(seq))                                                                                 \
  OPC_PP_E4(f, arg, OPC_PP_TAIL4(OPC_PP_TAIL8(seq)))
#define OPC_PP_E4(f, arg, seq)                                                                                         \
  OPC_PP_E1(f, arg, seq)                                                                                               \
  OPC_PP_E1(f, arg, OPC_PP_TAIL(seq))                                                                                  \
  OPC_PP_E1(f, arg, OPC_PP_TAIL2(seq))                                                                                 \
  OPC_PP_E1(f, arg, OPC_PP_TAIL(OPC_PP_TAIL2(seq)))
#define OPC_PP_E1(f, arg, seq) OPC_PP_PASTE(OPC_PP_E1_, OPC_PP_IS_END(seq))(f, arg, seq)
#define OPC_PP_E1_1(f, arg, seq)

#define OPC_PP_OUTER_EACH(f, arg, seq) OPC_PP_O64(f, arg, seq)
#define OPC_PP_O1_0(f, arg, seq) f(arg, OPC_PP_HEAD(seq))
#define OPC_PP_O64(f, arg, seq)                                                                                        \
  OPC_PP_O16(f, arg, seq)                                                                                              \
  OPC_PP_O16(f, arg, OPC_PP_TAIL16(seq))                                                                               \
  OPC_PP_O16(f, arg, OPC_PP_TAIL32(seq))                                                                               \
  OPC_PP_O16(f, arg, OPC_PP_TAIL16(OPC_PP_TAIL32(seq)))                                                                \
  OPC_PP_TOO_LONG(OPC_PP_TAIL32(OPC_PP_TAIL32(seq)))
#define OPC_PP_O16(f, arg, seq)                                                                                        \
  OPC_PP_O4(f, arg, seq)                                                                                               \
  OPC_PP_O4(f, arg, OPC_PP_TAIL4(seq))                                                                                 \
  OPC_PP_O4(f, arg, OPC_PP_TAIL8(seq))                                                                                 \
  OPC_PP_O4(f, arg, OPC_PP_TAIL4(OPC_PP_TAIL8(seq)))
#define OPC_PP_O4(f, arg, seq)                                                                                         \
  OPC_PP_O1(f, arg, seq)                                                                                               \
  OPC_PP_O1(f, arg, OPC_PP_TAIL(seq))                                                                                  \
  OPC_PP_O1(f, arg, OPC_PP_TAIL2(seq))                                                                                 \
  OPC_PP_O1(f, arg, OPC_PP_TAIL(OPC_PP_TAIL2(seq)))
#define OPC_PP_O1(f, arg, seq) OPC_PP_PASTE(OPC_PP_O1_, OPC_PP_IS_END(seq))(f, arg, seq)
#define OPC_PP_O1_1(f, arg, seq)

// Products: `list` is the macro and the elements chosen so far, what follows `seq` are the sequences still to come.
#define OPC_PP_PUSH(list, x) (OPC_PP_UNPACK list, x)
#define OPC_PP_PRODUCT_1(f, list, seq) OPC_PP_P1_64(f, list, seq)
#define OPC_PP_P1_1_0(f, list, seq) f(OPC_PP_PUSH(list, OPC_PP_HEAD(seq)))
#define OPC_PP_P1_64(f, list, seq)                                                                                     \
  OPC_PP_P1_16(f, list, seq)                                                                                           \
  OPC_PP_P1_16(f, list, OPC_PP_TAIL16(seq))                                                                            \
  OPC_PP_P1_16(f, list, OPC_PP_TAIL32(seq))                                                                            \
  OPC_PP_P1_16(f, list, OPC_PP_TAIL16(OPC_PP_TAIL32(seq)))                                                             \
  OPC_PP_TOO_LONG(OPC_PP_TAIL32(OPC_PP_TAIL32(seq)))
#define OPC_PP_P1_16(f, list, seq)                                                                                     \
  OPC_PP_P1_4(f, list, seq)                                                                                            \
  OPC_PP_P1_4(f, list, OPC_PP_TAIL4(seq))                                                                              \
  OPC_PP_P1_4(f, list, OPC_PP_TAIL8(seq))                                                                              \
  OPC_PP_P1_4(f, list, OPC_PP_TAIL4(OPC_PP_TAIL8(seq)))
#define OPC_PP_P1_4(f, list, seq)                                                                                      \
  OPC_PP_P1_1(f, list, seq)                                                                                            \
  OPC_PP_P1_1(f, list, OPC_PP_TAIL(seq))                                                                               \
  OPC_PP_P1_1(f, list, OPC_PP_TAIL2(seq))                                                                              \
  OPC_PP_P1_1(f, list, OPC_PP_TAIL(OPC_PP_TAIL2(seq)))
#define OPC_PP_P1_1(f, list, seq) OPC_PP_PASTE(OPC_PP_P1_1_, OPC_PP_IS_END(seq))(f, list, seq)
#define OPC_PP_P1_1_1(f, list, seq)
#define OPC_PP_PRODUCT_2(f, list, seq, ...) OPC_PP_P2_64(f, list, seq, __VA_ARGS__)
#define OPC_PP_P2_1_0(f, list, seq, ...) OPC_PP_PRODUCT_1(f, OPC_PP_PUSH(list, OPC_PP_HEAD(seq)), __VA_ARGS__)
#define OPC_PP_P2_64(f, list, seq, ...)                                                                                \
  OPC_PP_P2_16(f, list, seq, __VA_ARGS__)                                                                              \
  OPC_PP_P2_16(f, list, OPC_PP_TAIL16(seq), __VA_ARGS__)                                                               \
  OPC_PP_P2_16(f, list, OPC_PP_TAIL32(seq), __VA_ARGS__)                                                               \
  OPC_PP_P2_16(f, list, OPC_PP_TAIL16(OPC_PP_TAIL32(seq)), __VA_ARGS__)                                                \
  OPC_PP_TOO_LONG(OPC_PP_TAIL32(OPC_PP_TAIL32(seq)))
#define OPC_PP_P2_16(f, list, seq, ...)                                                                                \
  OPC_PP_P2_4(f, list, seq, __VA_ARGS__)                                                                               \
  OPC_PP_P2_4(f, list, OPC_PP_TAIL4(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P2_4(f, list, OPC_PP_TAIL8(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P2_4(f, list, OPC_PP_TAIL4(OPC_PP_TAIL8(seq)), __VA_ARGS__)
#define OPC_PP_P2_4(f, list, seq, ...)                                                                                 \
  OPC_PP_P2_1(f, list, seq, __VA_ARGS__)                                                                               \
  OPC_PP_P2_1(f, list, OPC_PP_TAIL(seq), __VA_ARGS__)                                                                  \
  OPC_PP_P2_1(f, list, OPC_PP_TAIL2(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P2_1(f, list, OPC_PP_TAIL(OPC_PP_TAIL2(seq)), __VA_ARGS__)
#define OPC_PP_P2_1(f, list, seq, ...) OPC_PP_PASTE(OPC_PP_P2_1_, OPC_PP_IS_END(seq))(f, list, seq, __VA_ARGS__)
#define OPC_PP_P2_1_1(f, list, seq, ...)
#define OPC_PP_PRODUCT_3(f, list, seq, ...) OPC_PP_P3_64(f, list, seq, __VA_ARGS__)
#define OPC_PP_P3_1_0(f, list, seq, ...) OPC_PP_PRODUCT_2(f, OPC_PP_PUSH(list, OPC_PP_HEAD(seq)), __VA_ARGS__)
#define OPC_PP_P3_64(f, list, seq, ...)                                                                                \
  OPC_PP_P3_16(f, list, seq, __VA_ARGS__)                                                                              \
  OPC_PP_P3_16(f, list, OPC_PP_TAIL16(seq), __VA_ARGS__)                                                               \
  OPC_PP_P3_16(f, list, OPC_PP_TAIL32(seq), __VA_ARGS__)                                                               \
  OPC_PP_P3_16(f, list, OPC_PP_TAIL16(OPC_PP_TAIL32(seq)), __VA_ARGS__)                                                \
  OPC_PP_TOO_LONG(OPC_PP_TAIL32(OPC_PP_TAIL32(seq)))
#define OPC_PP_P3_16(f, list, seq, ...)                                                                                \
  OPC_PP_P3_4(f, list, seq, __VA_ARGS__)                                                                               \
  OPC_PP_P3_4(f, list, OPC_PP_TAIL4(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P3_4(f, list, OPC_PP_TAIL8(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P3_4(f, list, OPC_PP_TAIL4(OPC_PP_TAIL8(seq)), __VA_ARGS__)
#define OPC_PP_P3_4(f, list, seq, ...)                                                                                 \
  OPC_PP_P3_1(f, list, seq, __VA_ARGS__)                                                                               \
  OPC_PP_P3_1(f, list, OPC_PP_TAIL(seq), __VA_ARGS__)                                                                  \
  OPC_PP_P3_1(f, list, OPC_PP_TAIL2(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P3_1(f, list, OPC_PP_TAIL(OPC_PP_TAIL2(seq)), __VA_ARGS__)
#define OPC_PP_P3_1(f, list, seq, ...) OPC_PP_PASTE(OPC_PP_P3_1_, OPC_PP_IS_END(seq))(f, list, seq, __VA_ARGS__)
#define OPC_PP_P3_1_1(f, list, seq, ...)
#define OPC_PP_PRODUCT_4(f, list, seq, ...) OPC_PP_P4_64(f, list, seq, __VA_ARGS__)
#define OPC_PP_P4_1_0(f, list, seq, ...) OPC_PP_PRODUCT_3(f, OPC_PP_PUSH(list, OPC_PP_HEAD(seq)), __VA_ARGS__)
#define OPC_PP_P4_64(f, list, seq, ...)                                                                                \
  OPC_PP_P4_16(f, list, seq, __VA_ARGS__)                                                                              \
  OPC_PP_P4_16(f, list, OPC_PP_TAIL16(seq), __VA_ARGS__)                                                               \
  OPC_PP_P4_16(f, list, OPC_PP_TAIL32(seq), __VA_ARGS__)                                                               \
  OPC_PP_P4_16(f, list, OPC_PP_TAIL16(OPC_PP_TAIL32(seq)), __VA_ARGS__)                                                \
  OPC_PP_TOO_LONG(OPC_PP_TAIL32(OPC_PP_TAIL32(seq)))
#define OPC_PP_P4_16(f, list, seq, ...)                                                                                \
  OPC_PP_P4_4(f, list, seq, __VA_ARGS__)                                                                               \
  OPC_PP_P4_4(f, list, OPC_PP_TAIL4(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P4_4(f, list, OPC_PP_TAIL8(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P4_4(f, list, OPC_PP_TAIL4(OPC_PP_TAIL8(seq)), __VA_ARGS__)
#define OPC_PP_P4_4(f, list, seq, ...)                                                                                 \
  OPC_PP_P4_1(f, list, seq, __VA_ARGS__)                                                                               \
  OPC_PP_P4_1(f, list, OPC_PP_TAIL(seq), __VA_ARGS__)                                                                  \
  OPC_PP_P4_1(f, list, OPC_PP_TAIL2(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P4_1(f, list, OPC_PP_TAIL(OPC_PP_TAIL2(seq)), __VA_ARGS__)
#define OPC_PP_P4_1(f, list, seq, ...) OPC_PP_PASTE(OPC_PP_P4_1_, OPC_PP_IS_END(seq))(f, list, seq, __VA_ARGS__)
#define OPC_PP_P4_1_1(f, list, seq, ...)
#define OPC_PP_PRODUCT_5(f, list, seq, ...) OPC_PP_P5_64(f, list, seq, __VA_ARGS__)
#define OPC_PP_P5_1_0(f, list, seq, ...) OPC_PP_PRODUCT_4(f, OPC_PP_PUSH(list, OPC_PP_HEAD(seq)), __VA_ARGS__)
#define OPC_PP_P5_64(f, list, seq, ...)                                                                                \
  OPC_PP_P5_16(f, list, seq, __VA_ARGS__)                                                                              \
  OPC_PP_P5_16(f, list, OPC_PP_TAIL16(seq), __VA_ARGS__)                                                               \
  OPC_PP_P5_16(f, list, OPC_PP_TAIL32(seq), __VA_ARGS__)                                                               \
  OPC_PP_P5_16(f, list, OPC_PP_TAIL16(OPC_PP_TAIL32(seq)), __VA_ARGS__)                                                \
  OPC_PP_TOO_LONG(OPC_PP_TAIL32(OPC_PP_TAIL32(seq)))
#define OPC_PP_P5_16(f, list, seq, ...)                                                                                \
  OPC_PP_P5_4(f, list, seq, __VA_ARGS__)                                                                               \
  OPC_PP_P5_4(f, list, OPC_PP_TAIL4(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P5_4(f, list, OPC_PP_TAIL8(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P5_4(f, list, OPC_PP_TAIL4(OPC_PP_TAIL8(seq)), __VA_ARGS__)
#define OPC_PP_P5_4(f, list, seq, ...)                                                                                 \
  OPC_PP_P5_1(f, list, seq, __VA_ARGS__)                                                                               \
  OPC_PP_P5_1(f, list, OPC_PP_TAIL(seq), __VA_ARGS__)                                                                  \
  OPC_PP_P5_1(f, list, OPC_PP_TAIL2(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P5_1(f, list, OPC_PP_TAIL(OPC_PP_TAIL2(seq)), __VA_ARGS__)
#define OPC_PP_P5_1(f, list, seq, ...) OPC_PP_PASTE(OPC_PP_P5_1_, OPC_PP_IS_END(seq))(f, list, seq, __VA_ARGS__)
#define OPC_PP_P5_1_1(f, list, seq, ...)
#define OPC_PP_PRODUCT_6(f, list, seq, ...) OPC_PP_P6_64(f, list, seq, __VA_ARGS__)
#define OPC_PP_P6_1_0(f, list, seq, ...) OPC_PP_PRODUCT_5(f, OPC_PP_PUSH(list, OPC_PP_HEAD(seq)), __VA_ARGS__)
#define OPC_PP_P6_64(f, list, seq, ...)                                                                                \
  OPC_PP_P6_16(f, list, seq, __VA_ARGS__)                                                                              \
  OPC_PP_P6_16(f, list, OPC_PP_TAIL16(seq), __VA_ARGS__)                                                               \
  OPC_PP_P6_16(f, list, OPC_PP_TAIL32(seq), __VA_ARGS__)                                                               \
  OPC_PP_P6_16(f, list, OPC_PP_TAIL16(OPC_PP_TAIL32(seq)), __VA_ARGS__)                                                \
  OPC_PP_TOO_LONG(OPC_PP_TAIL32(OPC_PP_TAIL32(seq)))
#define OPC_PP_P6_16(f, list, seq, ...)                                                                                \
  OPC_PP_P6_4(f, list, seq, __VA_ARGS__)                                                                               \
  OPC_PP_P6_4(f, list, OPC_PP_TAIL4(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P6_4(f, list, OPC_PP_TAIL8(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P6_4(f, list, OPC_PP_TAIL4(OPC_PP_TAIL8(seq)), __VA_ARGS__)
#define OPC_PP_P6_4(f, list, seq, ...)                                                                                 \
  OPC_PP_P6_1(f, list, seq, __VA_ARGS__)                                                                               \
  OPC_PP_P6_1(f, list, OPC_PP_TAIL(seq), __VA_ARGS__)                                                                  \
  OPC_PP_P6_1(f, list, OPC_PP_TAIL2(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P6_1(f, list, OPC_PP_TAIL(OPC_PP_TAIL2(seq)), __VA_ARGS__)
#define OPC_PP_P6_1(f, list, seq, ...) OPC_PP_PASTE(OPC_PP_P6_1_, OPC_PP_IS_END(seq))(f, list, seq, __VA_ARGS__)
#define OPC_PP_P6_1_1(f, list, seq, ...)
#define OPC_PP_PRODUCT_7(f, list, seq, ...) OPC_PP_P7_64(f, list, seq, __VA_ARGS__)
#define OPC_PP_P7_1_0(f, list, seq, ...) OPC_PP_PRODUCT_6(f, OPC_PP_PUSH(list, OPC_PP_HEAD(seq)), __VA_ARGS__)
#define OPC_PP_P7_64(f, list, seq, ...)                                                                                \
  OPC_PP_P7_16(f, list, seq, __VA_ARGS__)                                                                              \
  OPC_PP_P7_16(f, list, OPC_PP_TAIL16(seq), __VA_ARGS__)                                                               \
  OPC_PP_P7_16(f, list, OPC_PP_TAIL32(seq), __VA_ARGS__)                                                               \
  OPC_PP_P7_16(f, list, OPC_PP_TAIL16(OPC_PP_TAIL32(seq)), __VA_ARGS__)                                                \
  OPC_PP_TOO_LONG(OPC_PP_TAIL32(OPC_PP_TAIL32(seq)))
#define OPC_PP_P7_16(f, list, seq, ...)                                                                                \
  OPC_PP_P7_4(f, list, seq, __VA_ARGS__)                                                                               \
  OPC_PP_P7_4(f, list, OPC_PP_TAIL4(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P7_4(f, list, OPC_PP_TAIL8(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P7_4(f, list, OPC_PP_TAIL4(OPC_PP_TAIL8(seq)), __VA_ARGS__)
#define OPC_PP_P7_4(f, list, seq, ...)                                                                                 \
  OPC_PP_P7_1(f, list, seq, __VA_ARGS__)                                                                               \
  OPC_PP_P7_1(f, list, OPC_PP_TAIL(seq), __VA_ARGS__)                                                                  \
  OPC_PP_P7_1(f, list, OPC_PP_TAIL2(seq), __VA_ARGS__)                                                                 \
  OPC_PP_P7_1(f, list, OPC_PP_TAIL(OPC_PP_TAIL2(seq)), __VA_ARGS__)
#define OPC_PP_P7_1(f, list, seq, ...) OPC_PP_PASTE(OPC_PP_P7_1_, OPC_PP_IS_END(seq))(f, list, seq, __VA_ARGS__)
#define OPC_PP_P7_1_1(f, list, seq, ...)
