// The functions that scalar functions are written with: for numbers here, for expressions in opc/Scalar.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/ScalarGamma.h"

#include <type_traits>

namespace opc::scalar {

class Expr;

/// The result of a comparison of numbers T. Remembers T so that `select(x > 0, 1, 0)` has a type.
template <class T> struct Mask {
  bool value;
  OPC_HOST_DEVICE explicit Mask(bool v) : value(v) {}
  OPC_HOST_DEVICE explicit operator bool() const { return value; }
  // Not short-circuit: a branch would keep the loop from being vectorised.
  OPC_HOST_DEVICE friend Mask operator&&(Mask a, Mask b) { return Mask(static_cast<bool>(a.value & b.value)); }
  OPC_HOST_DEVICE friend Mask operator||(Mask a, Mask b) { return Mask(static_cast<bool>(a.value | b.value)); }
  OPC_HOST_DEVICE friend Mask operator^(Mask a, Mask b) { return Mask(a.value != b.value); }
  OPC_HOST_DEVICE friend Mask operator!(Mask a) { return Mask(!a.value); }
};

/// A number in the body of a scalar function. It exists because `0.5 * x` with a plain float would compute in double:
/// every constant is converted to T. Integers wrap around; integer division by zero gives 0.
template <class T> struct Number {
  T value;
  Number() = default;
  template <class C, class = std::enable_if_t<std::is_arithmetic_v<C>>>
  OPC_HOST_DEVICE Number(C v) : value(static_cast<T>(v)) {}

  // Unsigned arithmetic of at least 32 bits, so that overflow wraps instead of being undefined.
  using Wide = std::conditional_t<
      std::is_floating_point_v<T>, T,
      std::make_unsigned_t<std::conditional_t<(sizeof(T) < 4 || std::is_floating_point_v<T>), int32_t, T>>>;
  OPC_HOST_DEVICE friend Number operator+(Number a, Number b) { return static_cast<T>(Wide(a.value) + Wide(b.value)); }
  OPC_HOST_DEVICE friend Number operator-(Number a, Number b) { return static_cast<T>(Wide(a.value) - Wide(b.value)); }
  OPC_HOST_DEVICE friend Number operator*(Number a, Number b) { return static_cast<T>(Wide(a.value) * Wide(b.value)); }
  OPC_HOST_DEVICE friend Number operator-(Number a) {
    if constexpr (std::is_floating_point_v<T>)
      return -a.value;
    else
      return static_cast<T>(Wide(0) - Wide(a.value));
  }
  OPC_HOST_DEVICE friend Number operator+(Number a) { return a; }
  OPC_HOST_DEVICE friend Number operator/(Number a, Number b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a.value / b.value;
    } else {
      if (b.value == 0) return T(0);
      if constexpr (std::is_signed_v<T>)
        if (b.value == T(-1)) return -a; // the most negative number divided by -1 wraps
      return static_cast<T>(a.value / b.value);
    }
  }
  OPC_HOST_DEVICE friend Mask<T> operator<(Number a, Number b) { return Mask<T>(a.value < b.value); }
  OPC_HOST_DEVICE friend Mask<T> operator<=(Number a, Number b) { return Mask<T>(a.value <= b.value); }
  OPC_HOST_DEVICE friend Mask<T> operator>(Number a, Number b) { return Mask<T>(a.value > b.value); }
  OPC_HOST_DEVICE friend Mask<T> operator>=(Number a, Number b) { return Mask<T>(a.value >= b.value); }
  OPC_HOST_DEVICE friend Mask<T> operator==(Number a, Number b) { return Mask<T>(a.value == b.value); }
  OPC_HOST_DEVICE friend Mask<T> operator!=(Number a, Number b) { return Mask<T>(a.value != b.value); }
};

namespace detail {
template <class A> struct NumberOf {};
template <class T> struct NumberOf<Number<T>> {
  using type = Number<T>;
};
/// The Number among two operands, the other being the same or a constant; no type otherwise.
template <class A, class B, class = void> struct Common {};
template <class T> struct Common<Number<T>, Number<T>> {
  using type = Number<T>;
};
template <class T, class B> struct Common<Number<T>, B, std::enable_if_t<std::is_arithmetic_v<B>>> {
  using type = Number<T>;
};
template <class A, class T> struct Common<A, Number<T>, std::enable_if_t<std::is_arithmetic_v<A>>> {
  using type = Number<T>;
};
template <class A, class B> using CommonT = typename Common<A, B>::type;
/// The plain type inside.
template <class N> using ValueT = decltype(N::value);
} // namespace detail

// Name lists: every function, the numbers it is for, and how expressions record it (opc/Scalar.h).
// Functions of one real number.
// clang-format off: it never comes to rest on this list
#define OPC_SCALAR_UNARY_REAL(X)                                                                                       \
  X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sqrt) X(rsqrt) X(sin) X(cos) X(tan) X(asin) X(acos)       \
  X(atan) X(sinh) X(cosh) X(tanh) X(asinh) X(acosh) X(atanh) X(erf) X(erfc) X(lgamma) X(digamma) X(trigamma)           \
  X(sigmoid) X(softplus)
// clang-format on
// Functions of one number of any kind that give a number.
#define OPC_SCALAR_UNARY_ANY(X) X(abs) X(sign) X(floor) X(ceil) X(round) X(trunc)
// Tests.
#define OPC_SCALAR_TESTS(X) X(isnan) X(isinf) X(isfinite)
// Functions of two numbers of any kind.
#define OPC_SCALAR_BINARY_ANY(X) X(pow) X(max) X(min) X(fmod) X(floormod) X(floordiv) X(truncdiv)
#define OPC_SCALAR_BINARY_REAL(X) X(atan2) X(polygamma)
#define OPC_SCALAR_BINARY_BITS(X) X(bitwise_and) X(bitwise_or) X(bitwise_xor)

/// The base of every scalar function: inside its body `exp(x)`, `select(c, a, b)` and so on need no qualification.
/// Overloads for float, double, Number<T> and Expr. f32 is our own vectorisable code, f64 is libm (on a GPU both are
/// CUDA's). NaN and infinities follow C unless a comment says otherwise.
struct Functions {
#if defined(__CUDA_ARCH__)
#define OPC_FLOAT_FUNCTION(name, ours, device)                                                                         \
  OPC_HOST_DEVICE static inline float name(float x) { return device(x); }
#else
#define OPC_FLOAT_FUNCTION(name, ours, device)                                                                         \
  OPC_HOST_DEVICE static OPC_SCALAR_INLINE float name(float x) { return ours(x); }
#endif
#define OPC_DOUBLE_FUNCTION(name, libm)                                                                                \
  OPC_HOST_DEVICE static inline double name(double x) { return libm(x); }
  OPC_FLOAT_FUNCTION(exp, f32::exp, ::expf)
  OPC_FLOAT_FUNCTION(exp2, f32::exp2, ::exp2f)
  OPC_FLOAT_FUNCTION(expm1, f32::expm1, ::expm1f)
  OPC_FLOAT_FUNCTION(log, f32::log, ::logf)
  OPC_FLOAT_FUNCTION(log2, f32::log2, ::log2f)
  OPC_FLOAT_FUNCTION(log10, f32::log10, ::log10f)
  OPC_FLOAT_FUNCTION(log1p, f32::log1p, ::log1pf)
  OPC_FLOAT_FUNCTION(sqrt, ::sqrtf, ::sqrtf)
  OPC_FLOAT_FUNCTION(sin, f32::sin, ::sinf)
  OPC_FLOAT_FUNCTION(cos, f32::cos, ::cosf)
  OPC_FLOAT_FUNCTION(tan, f32::tan, ::tanf)
  OPC_FLOAT_FUNCTION(asin, ::asinf, ::asinf)
  OPC_FLOAT_FUNCTION(acos, ::acosf, ::acosf)
  OPC_FLOAT_FUNCTION(atan, ::atanf, ::atanf)
  OPC_FLOAT_FUNCTION(sinh, f32::sinh, ::sinhf)
  OPC_FLOAT_FUNCTION(cosh, f32::cosh, ::coshf)
  OPC_FLOAT_FUNCTION(tanh, f32::tanh, ::tanhf)
  OPC_FLOAT_FUNCTION(asinh, ::asinhf, ::asinhf)
  OPC_FLOAT_FUNCTION(acosh, ::acoshf, ::acoshf)
  OPC_FLOAT_FUNCTION(atanh, ::atanhf, ::atanhf)
  OPC_FLOAT_FUNCTION(erf, f32::erf, ::erff)
  OPC_FLOAT_FUNCTION(erfc, ::erfcf, ::erfcf)
  OPC_DOUBLE_FUNCTION(exp, ::exp)
  OPC_DOUBLE_FUNCTION(exp2, ::exp2)
  OPC_DOUBLE_FUNCTION(expm1, ::expm1)
  OPC_DOUBLE_FUNCTION(log, ::log)
  OPC_DOUBLE_FUNCTION(log2, ::log2)
  OPC_DOUBLE_FUNCTION(log10, ::log10)
  OPC_DOUBLE_FUNCTION(log1p, ::log1p)
  OPC_DOUBLE_FUNCTION(sqrt, ::sqrt)
  OPC_DOUBLE_FUNCTION(sin, ::sin)
  OPC_DOUBLE_FUNCTION(cos, ::cos)
  OPC_DOUBLE_FUNCTION(tan, ::tan)
  OPC_DOUBLE_FUNCTION(asin, ::asin)
  OPC_DOUBLE_FUNCTION(acos, ::acos)
  OPC_DOUBLE_FUNCTION(atan, ::atan)
  OPC_DOUBLE_FUNCTION(sinh, ::sinh)
  OPC_DOUBLE_FUNCTION(cosh, ::cosh)
  OPC_DOUBLE_FUNCTION(tanh, ::tanh)
  OPC_DOUBLE_FUNCTION(asinh, ::asinh)
  OPC_DOUBLE_FUNCTION(acosh, ::acosh)
  OPC_DOUBLE_FUNCTION(atanh, ::atanh)
  OPC_DOUBLE_FUNCTION(erf, ::erf)
  OPC_DOUBLE_FUNCTION(erfc, ::erfc)
#undef OPC_FLOAT_FUNCTION
#undef OPC_DOUBLE_FUNCTION
#if defined(__CUDA_ARCH__)
  OPC_HOST_DEVICE static inline float sigmoid(float x) { return 1.0f / (1.0f + ::expf(-x)); }
  OPC_HOST_DEVICE static inline float pow(float x, float y) { return ::powf(x, y); }
  OPC_HOST_DEVICE static inline float rsqrt(float x) { return ::rsqrtf(x); }
#else
  OPC_HOST_DEVICE static OPC_SCALAR_INLINE float sigmoid(float x) { return f32::sigmoid(x); }
  OPC_HOST_DEVICE static OPC_SCALAR_INLINE float pow(float x, float y) { return f32::pow(x, y); }
  OPC_HOST_DEVICE static OPC_SCALAR_INLINE float rsqrt(float x) { return 1.0f / ::sqrtf(x); }
#endif
  OPC_HOST_DEVICE static inline double sigmoid(double x) {
    const double e = ::exp(x > 0 ? -x : x), r = 1.0 / (1.0 + e);
    return x > 0 ? r : e * r;
  }
  OPC_HOST_DEVICE static inline double rsqrt(double x) { return 1.0 / ::sqrt(x); }
  OPC_HOST_DEVICE static inline double pow(double x, double y) { return ::pow(x, y); }
  OPC_HOST_DEVICE static inline float atan2(float y, float x) { return ::atan2f(y, x); }
  OPC_HOST_DEVICE static inline double atan2(double y, double x) { return ::atan2(y, x); }

  /// log(1 + e^x), without overflow: the antiderivative of sigmoid.
  template <class T, class = std::enable_if_t<std::is_floating_point_v<T>>>
  OPC_HOST_DEVICE static OPC_SCALAR_INLINE T softplus(T x) {
    return max(x, T(0)) + log1p(exp(-abs(x)));
  }
  // Gamma functions compute in f64 (opc/ScalarGamma.h).
#define OPC_GAMMA_FUNCTION(name)                                                                                       \
  OPC_HOST_DEVICE static inline double name(double x) { return f64::name(x); }                                         \
  OPC_HOST_DEVICE static inline float name(float x) { return static_cast<float>(f64::name(static_cast<double>(x))); }
  OPC_GAMMA_FUNCTION(lgamma)
  OPC_GAMMA_FUNCTION(digamma)
  OPC_GAMMA_FUNCTION(trigamma)
#undef OPC_GAMMA_FUNCTION
  OPC_HOST_DEVICE static inline double polygamma(double order, double x) { return f64::polygamma(order, x); }
  OPC_HOST_DEVICE static inline float polygamma(float order, float x) {
    return static_cast<float>(f64::polygamma(static_cast<double>(order), static_cast<double>(x)));
  }

  // abs, sign, rounding. sign(0) = 0, sign(NaN) = NaN. round: halves to even.
  OPC_HOST_DEVICE static inline float abs(float x) { return ::fabsf(x); }
  OPC_HOST_DEVICE static inline double abs(double x) { return ::fabs(x); }
  OPC_HOST_DEVICE static inline float floor(float x) { return ::floorf(x); }
  OPC_HOST_DEVICE static inline double floor(double x) { return ::floor(x); }
  OPC_HOST_DEVICE static inline float ceil(float x) { return ::ceilf(x); }
  OPC_HOST_DEVICE static inline double ceil(double x) { return ::ceil(x); }
  OPC_HOST_DEVICE static inline float round(float x) { return ::rintf(x); }
  OPC_HOST_DEVICE static inline double round(double x) { return ::rint(x); }
  OPC_HOST_DEVICE static inline float trunc(float x) { return ::truncf(x); }
  OPC_HOST_DEVICE static inline double trunc(double x) { return ::trunc(x); }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>> OPC_HOST_DEVICE static inline T abs(T x) {
    return x < T(0) ? (-Number<T>(x)).value : x; // the most negative number stays
  }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>> OPC_HOST_DEVICE static inline T floor(T x) {
    return x;
  }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>> OPC_HOST_DEVICE static inline T ceil(T x) {
    return x;
  }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>> OPC_HOST_DEVICE static inline T round(T x) {
    return x;
  }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>> OPC_HOST_DEVICE static inline T trunc(T x) {
    return x;
  }
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> OPC_HOST_DEVICE static inline T sign(T x) {
    const T one = x > T(0) ? T(1) : (x < T(0) ? T(-1) : T(0));
    return x == x ? one : x;
  }
  OPC_HOST_DEVICE static inline bool isnan(float x) { return x != x; }
  OPC_HOST_DEVICE static inline bool isnan(double x) { return x != x; }
  OPC_HOST_DEVICE static inline bool isinf(float x) { return abs(x) == f32::kInf; }
  OPC_HOST_DEVICE static inline bool isinf(double x) { return abs(x) == f32::kInf64; }
  OPC_HOST_DEVICE static inline bool isfinite(float x) { return abs(x) < f32::kInf; }
  OPC_HOST_DEVICE static inline bool isfinite(double x) { return abs(x) < f32::kInf64; }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>> OPC_HOST_DEVICE static inline bool isnan(T) {
    return false;
  }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>> OPC_HOST_DEVICE static inline bool isinf(T) {
    return false;
  }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>> OPC_HOST_DEVICE static inline bool isfinite(T) {
    return true;
  }

  // NaN in either operand gives NaN.
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> OPC_HOST_DEVICE static inline T max(T a, T b) {
    return ((a > b) | (a != a)) ? a : b;
  }
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> OPC_HOST_DEVICE static inline T min(T a, T b) {
    return ((a < b) | (a != a)) ? a : b;
  }
  /// The remainder with the sign of a (C's fmod); 0 for an integer division by zero.
  OPC_HOST_DEVICE static inline float fmod(float a, float b) { return ::fmodf(a, b); }
  OPC_HOST_DEVICE static inline double fmod(double a, double b) { return ::fmod(a, b); }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>> OPC_HOST_DEVICE static inline T fmod(T a, T b) {
    if (b == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return T(0);
    return static_cast<T>(a % b);
  }
  /// The remainder with the sign of b (Python's %); 0 for an integer division by zero.
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  OPC_HOST_DEVICE static inline T floormod(T a, T b) {
    const T r = fmod(a, b);
    if constexpr (std::is_unsigned_v<T>)
      return r;
    else
      return (r != T(0) && (r < T(0)) != (b < T(0))) ? static_cast<T>(r + b) : r;
  }
  /// a / b, rounded down (Python's //) or towards zero; 0 for an integer division by zero. Of floats it is the exact
  /// quotient that is rounded, so that a = b * floordiv + floormod: 1 // 0.1 is 9, although 1 / 0.1 rounds to 10.
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  OPC_HOST_DEVICE static inline T floordiv(T a, T b) {
    const T q = truncdiv(a, b);
    if constexpr (std::is_unsigned_v<T>) {
      return q;
    } else {
      const T r = fmod(a, b);
      const T down = r != T(0) && (r < T(0)) != (b < T(0)) ? static_cast<T>(q - 1) : q;
      return b == T(0) ? q : r == r ? down : r; // an infinite a has no remainder: NaN, as in Python
    }
  }
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  OPC_HOST_DEVICE static inline T truncdiv(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      // a less its remainder is a multiple of b but for rounding. A zero keeps the quotient's sign; where there is no
      // remainder the quotient is infinite or NaN.
      const T q = round((a - fmod(a, b)) / b);
      return abs(q) > T(0) ? q : trunc(a / b);
    } else {
      return (Number<T>(a) / Number<T>(b)).value;
    }
  }
  /// Integers: wraps around; a negative exponent gives 1 / a^-b truncated (so 0 but for a = 1 and -1; 0 for a = 0).
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>> OPC_HOST_DEVICE static inline T pow(T a, T b) {
    if constexpr (std::is_signed_v<T>)
      if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 ? T(-1) : T(1)) : T(0);
    Number<T> result(1), factor(a);
    for (; b != T(0); b = static_cast<T>(b / 2)) {
      if (b % 2 != 0) result = result * factor;
      factor = factor * factor;
    }
    return result.value;
  }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  OPC_HOST_DEVICE static inline T bitwise_and(T a, T b) {
    return static_cast<T>(a & b);
  }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  OPC_HOST_DEVICE static inline T bitwise_or(T a, T b) {
    return static_cast<T>(a | b);
  }
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  OPC_HOST_DEVICE static inline T bitwise_xor(T a, T b) {
    return static_cast<T>(a ^ b);
  }

  // The same for Number<T>, for pairs of a Number and a constant, and for expressions.
#define OPC_UNARY(name)                                                                                                \
  template <class T> OPC_HOST_DEVICE static OPC_SCALAR_INLINE Number<T> name(Number<T> x) { return name(x.value); }    \
  static Expr name(const Expr &x);
#define OPC_TEST(name)                                                                                                 \
  template <class T> OPC_HOST_DEVICE static OPC_SCALAR_INLINE Mask<T> name(Number<T> x) {                              \
    return Mask<T>(name(x.value));                                                                                     \
  }                                                                                                                    \
  static Expr name(const Expr &x);
#define OPC_BINARY(name)                                                                                               \
  template <class A, class B, class N = detail::CommonT<A, B>>                                                         \
  OPC_HOST_DEVICE static OPC_SCALAR_INLINE N name(A a, B b) {                                                          \
    return name(N(a).value, N(b).value);                                                                               \
  }                                                                                                                    \
  static Expr name(const Expr &a, const Expr &b);
  OPC_SCALAR_UNARY_REAL(OPC_UNARY)
  OPC_SCALAR_UNARY_ANY(OPC_UNARY)
  OPC_SCALAR_TESTS(OPC_TEST)
  OPC_SCALAR_BINARY_ANY(OPC_BINARY)
  OPC_SCALAR_BINARY_REAL(OPC_BINARY)
  OPC_SCALAR_BINARY_BITS(OPC_BINARY)
#undef OPC_UNARY
#undef OPC_TEST
#undef OPC_BINARY

  /// a where the condition holds, b elsewhere. Both are computed: there is no branch.
  template <class T> OPC_HOST_DEVICE static OPC_SCALAR_INLINE Number<T> select(Mask<T> c, Number<T> a, Number<T> b) {
    return c.value ? a.value : b.value;
  }
  template <class T, class A, class B, class = decltype(Number<T>(std::declval<A>())),
            class = decltype(Number<T>(std::declval<B>()))>
  OPC_HOST_DEVICE static OPC_SCALAR_INLINE Number<T> select(Mask<T> c, A a, B b) {
    return c.value ? Number<T>(a).value : Number<T>(b).value;
  }
  OPC_HOST_DEVICE static OPC_SCALAR_INLINE float select(bool c, float a, float b) { return c ? a : b; }
  OPC_HOST_DEVICE static OPC_SCALAR_INLINE double select(bool c, double a, double b) { return c ? a : b; }
  static Expr select(const Expr &c, const Expr &a, const Expr &b);
};

} // namespace opc::scalar
