// Every function that expressions are made of, once for each type that kernels compute in.
// SPDX-License-Identifier: Apache-2.0

// Compiled twice with the options of the kernels: to bitcode, which opc carries and widens to vectors, and to ordinary
// functions, which vector code calls, number by number, for what is no straight line of instructions.
#include "RowVectors.h"

#include "opc/Convert.h"
#include "opc/Scalar.h"

#ifndef OPC_LEAVES_AS_BITCODE
#include "ScalarLeaves.h"
#endif

namespace {

/// One number behind the names of kernels/cpu/RowVectors.h, with the results that a lane of a vector has.
struct One {
  float v;
};
OPC_LANES void splat(float x, One *v) { v->v = x; }
OPC_LANES One add(One a, One b) { return {a.v + b.v}; }
OPC_LANES One mul(One a, One b) { return {a.v * b.v}; }
OPC_LANES One fma(One a, One b, One c) { return {__builtin_fmaf(a.v, b.v, c.v)}; }
OPC_LANES One fnma(One a, One b, One c) { return {__builtin_fmaf(-a.v, b.v, c.v)}; }
OPC_LANES One max(One a, One b) { return {a.v > b.v ? a.v : b.v}; }
OPC_LANES One min(One a, One b) { return {a.v < b.v ? a.v : b.v}; }
OPC_LANES One round(One a) { return {__builtin_rintf(a.v)}; }
/// Of NaN, where any factor will do, 0.
OPC_LANES int whole(One n) { return n.v == n.v ? static_cast<int>(n.v) : 0; }
OPC_LANES float power2(int n) { return __builtin_bit_cast(float, static_cast<unsigned>(n + 127) << 23); }
OPC_LANES One timesPower2(One a, One n) { return {a.v * power2(whole(n))}; }
OPC_LANES One scale2(One a, One n) {
  const int both = whole(n), half = both >> 1;
  return {a.v * power2(half) * power2(both - half)};
}
OPC_LANES One unlessLess(One x, One limit, One a) { return {x.v < limit.v ? 0.0f : a.v}; }

} // namespace

using opc::scalar::Functions;
using opc::scalar::Mask;
using opc::scalar::Number;

// Types with their names in the names of functions.
#define OPC_FLOATS(X, ...) X(float, f32, __VA_ARGS__) X(double, f64, __VA_ARGS__)
// clang-format off: it breaks these lines anew each time
#define OPC_INTS(X, ...)                                                                                               \
  X(int8_t, i8, __VA_ARGS__) X(uint8_t, u8, __VA_ARGS__)                                                               \
  X(int16_t, i16, __VA_ARGS__) X(uint16_t, u16, __VA_ARGS__)                                                           \
  X(int32_t, i32, __VA_ARGS__) X(uint32_t, u32, __VA_ARGS__)                                                           \
  X(int64_t, i64, __VA_ARGS__) X(uint64_t, u64, __VA_ARGS__)
// clang-format on
#define OPC_NUMBERS(X, ...) OPC_FLOATS(X, __VA_ARGS__) OPC_INTS(X, __VA_ARGS__)

// clang-format off: lists
#define OPC_LEAVES(ONE, TWO, TEST, NEGATE, OPERATOR, COMPARE, SELECT, BEFORE, CAST)                                    \
  OPC_SCALAR_UNARY_REAL(OPC_REAL_ONE) OPC_SCALAR_UNARY_ANY(OPC_ANY_ONE) OPC_SCALAR_TESTS(OPC_ANY_TEST)                 \
  OPC_SCALAR_BINARY_ANY(OPC_ANY_TWO) OPC_SCALAR_BINARY_REAL(OPC_REAL_TWO) OPC_SCALAR_BINARY_BITS(OPC_BITS_TWO)         \
  OPC_NUMBERS(OPERATOR, add, +) OPC_NUMBERS(OPERATOR, subtract, -)                                                     \
  OPC_NUMBERS(OPERATOR, multiply, *) OPC_NUMBERS(OPERATOR, divide, /)                                                  \
  OPC_NUMBERS(COMPARE, less, <) OPC_NUMBERS(COMPARE, lessEqual, <=) OPC_NUMBERS(COMPARE, greater, >)                   \
  OPC_NUMBERS(COMPARE, greaterEqual, >=) OPC_NUMBERS(COMPARE, equal, ==) OPC_NUMBERS(COMPARE, notEqual, !=)            \
  OPC_NUMBERS(NEGATE, ) OPC_NUMBERS(SELECT, ) OPC_NUMBERS(BEFORE, )                                                    \
  CAST(f32, float) CAST(f64, double) CAST(i8, int8_t) CAST(u8, uint8_t) CAST(i16, int16_t) CAST(u16, uint16_t)         \
  CAST(i32, int32_t) CAST(u32, uint32_t) CAST(i64, int64_t) CAST(u64, uint64_t) CAST(bool, bool)
// clang-format on
#define OPC_REAL_ONE(name) OPC_FLOATS(OPC_ONE, name)
#define OPC_ANY_ONE(name) OPC_NUMBERS(OPC_ONE, name)
#define OPC_ANY_TEST(name) OPC_NUMBERS(OPC_TEST, name)
#define OPC_ANY_TWO(name) OPC_NUMBERS(OPC_TWO, name)
#define OPC_REAL_TWO(name) OPC_FLOATS(OPC_TWO, name)
#define OPC_BITS_TWO(name) OPC_INTS(OPC_TWO, name)
#define OPC_ALL_LEAVES                                                                                                 \
  OPC_LEAVES(OPC_ONE, OPC_TWO, OPC_TEST, OPC_NEGATE, OPC_OPERATOR, OPC_COMPARE, OPC_SELECT, OPC_BEFORE, OPC_CAST)

#define OPC_ONE(T, t, name)                                                                                            \
  T opc_leaf_##name##_##t(T x) { return Functions::name(Number<T>(x)).value; }
#define OPC_TWO(T, t, name)                                                                                            \
  T opc_leaf_##name##_##t(T a, T b) { return Functions::name(Number<T>(a), Number<T>(b)).value; }
#define OPC_TEST(T, t, name)                                                                                           \
  bool opc_leaf_##name##_##t(T x) { return Functions::name(Number<T>(x)).value; }
#define OPC_NEGATE(T, t, ...)                                                                                          \
  T opc_leaf_negate_##t(T a) { return (-Number<T>(a)).value; }
#define OPC_OPERATOR(T, t, name, symbol)                                                                               \
  T opc_leaf_##name##_##t(T a, T b) { return (Number<T>(a) symbol Number<T>(b)).value; }
#define OPC_COMPARE(T, t, name, symbol)                                                                                \
  bool opc_leaf_##name##_##t(T a, T b) { return (Number<T>(a) symbol Number<T>(b)).value; }
#define OPC_SELECT(T, t, ...)                                                                                          \
  T opc_leaf_select_##t(bool c, T a, T b) { return Functions::select(Mask<T>(c), Number<T>(a), Number<T>(b)).value; }
// What is rounded once more, to f16 or bf16.
#define OPC_BEFORE(T, t, ...)                                                                                          \
  float opc_leaf_beforeHalf_##t(T x) { return opc::detail::beforeRounding(x); }
#define OPC_CAST(from, From)                                                                                           \
  float opc_leaf_cast_##from##_f32(From x) { return opc::convertElement<float>(x); }                                   \
  double opc_leaf_cast_##from##_f64(From x) { return opc::convertElement<double>(x); }                                 \
  int8_t opc_leaf_cast_##from##_i8(From x) { return opc::convertElement<int8_t>(x); }                                  \
  uint8_t opc_leaf_cast_##from##_u8(From x) { return opc::convertElement<uint8_t>(x); }                                \
  int16_t opc_leaf_cast_##from##_i16(From x) { return opc::convertElement<int16_t>(x); }                               \
  uint16_t opc_leaf_cast_##from##_u16(From x) { return opc::convertElement<uint16_t>(x); }                             \
  int32_t opc_leaf_cast_##from##_i32(From x) { return opc::convertElement<int32_t>(x); }                               \
  uint32_t opc_leaf_cast_##from##_u32(From x) { return opc::convertElement<uint32_t>(x); }                             \
  uint64_t opc_leaf_cast_##from##_u64(From x) { return opc::convertElement<uint64_t>(x); }                             \
  int64_t opc_leaf_cast_##from##_i64(From x) { return opc::convertElement<int64_t>(x); }                               \
  bool opc_leaf_cast_##from##_bool(From x) { return opc::convertElement<bool>(x); }

extern "C" {
OPC_ALL_LEAVES
float opc_leaf_widen_bf16(uint16_t bits) {
  opc::bfloat16 h;
  h.bits = bits;
  return static_cast<float>(h);
}
uint16_t opc_leaf_narrow_bf16(float x) { return opc::bfloat16(x).bits; }
// Those of rows (kernels/cpu/RowMath.h).
float opc_leaf_rowExp_f32(float x) { return opc::cpu::vectorExp(One{x}).v; }
float opc_leaf_rowExpNonPositive_f32(float x) { return opc::cpu::vectorExpNonPositive(One{x}).v; }
}

#ifndef OPC_LEAVES_AS_BITCODE
#undef OPC_ONE
#undef OPC_TWO
#undef OPC_TEST
#undef OPC_NEGATE
#undef OPC_OPERATOR
#undef OPC_COMPARE
#undef OPC_SELECT
#undef OPC_BEFORE
#undef OPC_CAST
#define OPC_ENTRY(name) {#name, reinterpret_cast<const void *>(&name)},
#define OPC_ONE(T, t, name) OPC_ENTRY(opc_leaf_##name##_##t)
#define OPC_TWO OPC_ONE
#define OPC_TEST OPC_ONE
#define OPC_NEGATE(T, t, ...) OPC_ENTRY(opc_leaf_negate_##t)
#define OPC_OPERATOR(T, t, name, symbol) OPC_ENTRY(opc_leaf_##name##_##t)
#define OPC_COMPARE OPC_OPERATOR
#define OPC_SELECT(T, t, ...) OPC_ENTRY(opc_leaf_select_##t)
#define OPC_BEFORE(T, t, ...) OPC_ENTRY(opc_leaf_beforeHalf_##t)
#define OPC_CAST(from, From)                                                                                           \
  OPC_ENTRY(opc_leaf_cast_##from##_f32)                                                                                \
  OPC_ENTRY(opc_leaf_cast_##from##_f64)                                                                                \
  OPC_ENTRY(opc_leaf_cast_##from##_i8)                                                                                 \
  OPC_ENTRY(opc_leaf_cast_##from##_u8)                                                                                 \
  OPC_ENTRY(opc_leaf_cast_##from##_i16)                                                                                \
  OPC_ENTRY(opc_leaf_cast_##from##_u16)                                                                                \
  OPC_ENTRY(opc_leaf_cast_##from##_i32)                                                                                \
  OPC_ENTRY(opc_leaf_cast_##from##_u32)                                                                                \
  OPC_ENTRY(opc_leaf_cast_##from##_u64)                                                                                \
  OPC_ENTRY(opc_leaf_cast_##from##_i64)                                                                                \
  OPC_ENTRY(opc_leaf_cast_##from##_bool)

namespace opc::codegen {

// The bitcode of this file, as the build has made it.
asm(".section .rodata\n"
    ".balign 16\n"
    "opc_leaves_begin:\n"
    ".incbin \"" OPC_LEAVES_FILE "\"\n"
    "opc_leaves_end:\n"
    ".previous\n");
extern "C" const char opc_leaves_begin[], opc_leaves_end[];

std::string_view scalarLeavesBitcode() {
  return {opc_leaves_begin, static_cast<size_t>(opc_leaves_end - opc_leaves_begin)};
}

const std::unordered_map<std::string_view, const void *> &scalarLeafAddresses() {
  static const std::unordered_map<std::string_view, const void *> table = {
      OPC_ALL_LEAVES OPC_ENTRY(opc_leaf_widen_bf16) OPC_ENTRY(opc_leaf_narrow_bf16) OPC_ENTRY(opc_leaf_rowExp_f32)
          OPC_ENTRY(opc_leaf_rowExpNonPositive_f32)};
  return table;
}

} // namespace opc::codegen
#endif
