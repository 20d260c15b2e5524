// OPC_SCALAR: functions of single numbers, written once. Run on a number type they are a kernel's loop body; run on
// Expr they record an expression, which is printed, differentiated and fused.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/OpConf.h"
#include "opc/ScalarMath.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace opc::scalar {

/// What a node of an expression does. The functions follow the names in opc/ScalarMath.h.
enum class ScalarOp : uint8_t {
  kConstant,
  kParameter,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kNegate,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kEqual,
  kNotEqual,
  kAnd,
  kOr,
  kXor,
  kNot,
  kSelect, // condition, value if it holds, value if not
#define OPC_OP(name) name,
  OPC_SCALAR_UNARY_REAL(OPC_OP) OPC_SCALAR_UNARY_ANY(OPC_OP) OPC_SCALAR_TESTS(OPC_OP) OPC_SCALAR_BINARY_ANY(OPC_OP)
      OPC_SCALAR_BINARY_REAL(OPC_OP) OPC_SCALAR_BINARY_BITS(OPC_OP)
#undef OPC_OP
};

/// The symbol or function name, "+", "select", "exp".
const char *scalarOpName(ScalarOp op);
/// The number of operands: 0 to 3.
int scalarOpArity(ScalarOp op);
/// True when the value is a truth value: comparisons, logic, tests.
bool scalarOpIsTest(ScalarOp op);

/// The number type that records. Copies share the tree. Cannot be a condition of `if` or `?:`: use select.
class Expr {
public:
  struct Node {
    ScalarOp op = ScalarOp::kConstant;
    double value = 0;      // kConstant
    int32_t parameter = 0; // kParameter
    std::shared_ptr<const Node> args[3];
  };
  template <class C, class = std::enable_if_t<std::is_arithmetic_v<C>>>
  Expr(C constant) : Expr(static_cast<double>(constant), 0) {}
  static Expr parameter(int32_t index);
  static Expr make(ScalarOp op, std::initializer_list<Expr> args);
  const std::shared_ptr<const Node> &node() const { return node_; }
  bool isConstant(double value) const { return node_->op == ScalarOp::kConstant && node_->value == value; }

  friend Expr operator+(const Expr &a, const Expr &b) { return make(ScalarOp::kAdd, {a, b}); }
  friend Expr operator-(const Expr &a, const Expr &b) { return make(ScalarOp::kSub, {a, b}); }
  friend Expr operator*(const Expr &a, const Expr &b) { return make(ScalarOp::kMul, {a, b}); }
  friend Expr operator/(const Expr &a, const Expr &b) { return make(ScalarOp::kDiv, {a, b}); }
  friend Expr operator-(const Expr &a) { return make(ScalarOp::kNegate, {a}); }
  friend Expr operator+(const Expr &a) { return a; }
  friend Expr operator<(const Expr &a, const Expr &b) { return make(ScalarOp::kLess, {a, b}); }
  friend Expr operator<=(const Expr &a, const Expr &b) { return make(ScalarOp::kLessEqual, {a, b}); }
  friend Expr operator>(const Expr &a, const Expr &b) { return make(ScalarOp::kGreater, {a, b}); }
  friend Expr operator>=(const Expr &a, const Expr &b) { return make(ScalarOp::kGreaterEqual, {a, b}); }
  friend Expr operator==(const Expr &a, const Expr &b) { return make(ScalarOp::kEqual, {a, b}); }
  friend Expr operator!=(const Expr &a, const Expr &b) { return make(ScalarOp::kNotEqual, {a, b}); }
  friend Expr operator&&(const Expr &a, const Expr &b) { return make(ScalarOp::kAnd, {a, b}); }
  friend Expr operator||(const Expr &a, const Expr &b) { return make(ScalarOp::kOr, {a, b}); }
  friend Expr operator^(const Expr &a, const Expr &b) { return make(ScalarOp::kXor, {a, b}); }
  friend Expr operator!(const Expr &a) { return make(ScalarOp::kNot, {a}); }

private:
  Expr(double constant, int);
  explicit Expr(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  friend class ScalarProgram;
  std::shared_ptr<const Node> node_; // shared: an expression is a DAG
};

/// A run-time parameter's value, exact for 64-bit integers.
struct ScalarValue {
  bool isInteger = false;
  int64_t integer = 0;
  double real = 0;
  ScalarValue() = default;
  template <class C, class = std::enable_if_t<std::is_arithmetic_v<C>>>
  ScalarValue(C v)
      : isInteger(std::is_integral_v<C>), integer(std::is_integral_v<C> ? static_cast<int64_t>(v) : 0),
        real(static_cast<double>(v)) {}
  /// Converted to T; a real out of an integer T's range saturates, NaN gives 0.
  template <class T> T as() const {
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(real);
    } else {
      if (isInteger) return static_cast<T>(integer);
      if (!(real == real)) return T(0);
      if (real <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
      if (real >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
      return static_cast<T>(real);
    }
  }
};

/// Computes the values of a scalar function's attribute parameters from an op's attributes and its inputs' dtype.
using AttributeReader = std::function<std::vector<ScalarValue>(const user_op::UserOpConfWrapper &, DataType)>;

/// A recorded scalar function: nodes in evaluation order, equal subexpressions once. The last node is the result.
/// Parameters are the op's inputs, then its attribute values.
class ScalarProgram {
public:
  struct Node {
    ScalarOp op;
    double value;      // kConstant
    int32_t parameter; // kParameter
    int32_t args[3];   // indices of earlier nodes; -1 where the op has fewer operands
  };
  /// `names`: one for each parameter; the first `inputs` of them are the op's inputs.
  ScalarProgram(const Expr &result, std::vector<std::string> names, int32_t inputs);

  const std::vector<Node> &nodes() const { return nodes_; }
  const std::vector<std::string> &parameterNames() const { return names_; }
  /// Replaces the names (an op's arguments for the function's).
  void setParameterNames(std::vector<std::string> names) { names_ = std::move(names); }
  int32_t inputs() const { return inputs_; }
  bool isTest() const { return scalarOpIsTest(nodes_.back().op); }
  bool isConstant(double value) const {
    return nodes_.back().op == ScalarOp::kConstant && nodes_.back().value == value;
  }
  /// True when the result's expression contains the parameter.
  bool dependsOn(int32_t parameter) const;
  /// Readable text with the fewest parentheses: "0.5 * x * (1 + erf(x * 0.7071067811865476))". Texts that sharing makes
  /// much longer than the program name the shared parts first: "a = ...; b = ...; a * b".
  std::string text() const;
  /// The result for the given parameters, in f64. Truth values are 1 and 0.
  double evaluate(const std::vector<double> &parameters) const;
  Expr expr() const;
  /// d result / d parameter, simplified: constants folded, no x * 0, x * 1, x + 0. At kinks it takes the side that
  /// PyTorch takes: 0 for abs at 0, half for max and min of equals. An error for functions without a derivative here.
  Result<ScalarProgram> derivative(int32_t parameter) const;
  /// The sets of inputs in which the function is jointly linear, the others held fixed (for sharding rules).
  std::vector<std::vector<int32_t>> linearGroups() const;

  /// How the attribute parameters are computed for an op; unset when there are none.
  AttributeReader attributes;

private:
  std::vector<Node> nodes_;
  std::vector<std::string> names_;
  int32_t inputs_;
};

namespace detail {
template <class F, size_t... K> Expr record(std::index_sequence<K...>) {
  return Expr(F::template apply<Expr>(Expr::parameter(static_cast<int32_t>(K))...));
}
/// "x, alpha" -> {"x", "alpha"}.
std::vector<std::string> splitNames(const char *names);
} // namespace detail

/// Records F with the parameter names of its definition, the first `inputs` being tensors.
template <class F> ScalarProgram record(int32_t inputs = F::arity) {
  return ScalarProgram(detail::record<F>(std::make_index_sequence<F::arity>()), detail::splitNames(F::parameterNames()),
                       inputs);
}

} // namespace opc::scalar

#define OPC_SCALAR_COUNT_IMPL(a, b, c, d, e, f, n, ...) n
#define OPC_SCALAR_COUNT(...) OPC_SCALAR_COUNT_IMPL(__VA_ARGS__, 6, 5, 4, 3, 2, 1, 0)
#define OPC_SCALAR_PARAMS_1(a) [[maybe_unused]] T a
#define OPC_SCALAR_PARAMS_2(a, ...) [[maybe_unused]] T a, OPC_SCALAR_PARAMS_1(__VA_ARGS__)
#define OPC_SCALAR_PARAMS_3(a, ...) [[maybe_unused]] T a, OPC_SCALAR_PARAMS_2(__VA_ARGS__)
#define OPC_SCALAR_PARAMS_4(a, ...) [[maybe_unused]] T a, OPC_SCALAR_PARAMS_3(__VA_ARGS__)
#define OPC_SCALAR_PARAMS_5(a, ...) [[maybe_unused]] T a, OPC_SCALAR_PARAMS_4(__VA_ARGS__)
#define OPC_SCALAR_PARAMS_6(a, ...) [[maybe_unused]] T a, OPC_SCALAR_PARAMS_5(__VA_ARGS__)
#define OPC_SCALAR_JOIN_IMPL(a, b) a##b
#define OPC_SCALAR_JOIN(a, b) OPC_SCALAR_JOIN_IMPL(a, b)
#define OPC_SCALAR_PARAMS(...) OPC_SCALAR_JOIN(OPC_SCALAR_PARAMS_, OPC_SCALAR_COUNT(__VA_ARGS__))(__VA_ARGS__)

/// OPC_SCALAR(Silu, x) { return x * sigmoid(x); }
/// Defines a scalar function of up to 6 parameters, tensors first, then attributes. T is the number type. The body is
/// one or more statements without branches on values (use select); it may call everything in opc::scalar::Functions.
/// The name must differ from those functions'.
#define OPC_SCALAR(name, ...)                                                                                          \
  struct name : ::opc::scalar::Functions {                                                                             \
    static constexpr int32_t arity = OPC_SCALAR_COUNT(__VA_ARGS__);                                                    \
    static const char *parameterNames() { return #__VA_ARGS__; }                                                       \
    template <class T> OPC_HOST_DEVICE static OPC_SCALAR_INLINE auto apply(OPC_SCALAR_PARAMS(__VA_ARGS__));            \
  };                                                                                                                   \
  template <class T> OPC_HOST_DEVICE OPC_SCALAR_INLINE auto name::apply(OPC_SCALAR_PARAMS(__VA_ARGS__))
