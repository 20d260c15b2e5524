// Elementwise ops as ONNX: the recorded scalar function, node by node. It serves plugins as well.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmitters.h"

#include "opc/Convert.h"
#include "opc/Scalar.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opc::onnx_export {

using scalar::ScalarOp;
using scalar::ScalarProgram;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kLn2 = 0.6931471805599453, kLn10 = 2.302585092994046,
                 kPi = 3.141592653589793;

/// ONNX's op for a function, where one is the same; else null.
const char *directOp(ScalarOp op) {
  switch (op) {
  case ScalarOp::kAdd: return "Add";
  case ScalarOp::kSub: return "Sub";
  case ScalarOp::kMul: return "Mul";
  case ScalarOp::kLess: return "Less";
  case ScalarOp::kLessEqual: return "LessOrEqual";
  case ScalarOp::kGreater: return "Greater";
  case ScalarOp::kGreaterEqual: return "GreaterOrEqual";
  case ScalarOp::kEqual: return "Equal";
  case ScalarOp::kAnd: return "And";
  case ScalarOp::kOr: return "Or";
  case ScalarOp::kXor: return "Xor";
  case ScalarOp::kNot: return "Not";
  case ScalarOp::exp: return "Exp";
  case ScalarOp::log: return "Log";
  case ScalarOp::sqrt: return "Sqrt";
  case ScalarOp::sin: return "Sin";
  case ScalarOp::cos: return "Cos";
  case ScalarOp::tan: return "Tan";
  case ScalarOp::asin: return "Asin";
  case ScalarOp::acos: return "Acos";
  case ScalarOp::atan: return "Atan";
  case ScalarOp::sinh: return "Sinh";
  case ScalarOp::cosh: return "Cosh";
  case ScalarOp::tanh: return "Tanh";
  case ScalarOp::asinh: return "Asinh";
  case ScalarOp::acosh: return "Acosh";
  case ScalarOp::atanh: return "Atanh";
  case ScalarOp::erf: return "Erf";
  case ScalarOp::sigmoid: return "Sigmoid";
  case ScalarOp::abs: return "Abs";
  case ScalarOp::sign: return "Sign";
  case ScalarOp::max: return "Max";
  case ScalarOp::min: return "Min";
  case ScalarOp::pow: return "Pow";
  default: return nullptr;
  }
}

bool isLogic(ScalarOp op) {
  return op == ScalarOp::kAnd || op == ScalarOp::kOr || op == ScalarOp::kXor || op == ScalarOp::kNot;
}

/// Writes one program.
class ExpressionWriter {
public:
  ExpressionWriter(Emission &e, const ScalarProgram &program) : e_(e), program_(program) {}

  Wire write() {
    const auto &def = e_.instance.def();
    for (int32_t k = 0; k < program_.inputs(); ++k) inputs_.push_back(e_.in(def.inputs[static_cast<size_t>(k)].name));
    if (inputs_.empty()) e_.refuse("a function without inputs");
    type_ = inputs_[0].type;
    for (const Wire &x : inputs_)
      if (x.type != type_) e_.refuse("a function of several element types");
    const DataType graphType = e_.instance.inputDescs()[0].data_type();
    if (program_.attributes) values_ = program_.attributes(e_.instance.wrapper(), graphType);
    std::vector<Wire> made;
    for (const ScalarProgram::Node &node : program_.nodes()) {
      std::vector<Wire> args;
      for (int k = 0; k < scalar::scalarOpArity(node.op); ++k) args.push_back(made[static_cast<size_t>(node.args[k])]);
      made.push_back(one(node, args));
    }
    return made.back();
  }

private:
  Wire number(double value) { return e_.constant(type_, Shape(), {value}); }

  Wire parameter(int32_t index) {
    if (index < program_.inputs()) return inputs_[static_cast<size_t>(index)];
    const scalar::ScalarValue &v = values_.at(static_cast<size_t>(index - program_.inputs()));
    if (v.isInteger && type_ == kInt64) return e_.integers({v.integer}, Shape());
    return number(v.real);
  }

  /// Truth values where numbers are wanted, and the other way round.
  Wire asNumber(const Wire &x) { return x.type == kBool ? e_.cast(x, type_) : x; }
  Wire asTest(const Wire &x) {
    return x.type == kBool ? x : e_.negated(e_.test("Equal", x, e_.constant(x.type, Shape(), {0})));
  }

  Wire one(const ScalarProgram::Node &node, std::vector<Wire> args) {
    const ScalarOp op = node.op;
    if (op == ScalarOp::kConstant) return number(node.value);
    if (op == ScalarOp::kParameter) return parameter(node.parameter);
    if (op == ScalarOp::kSelect) return e_.select(asTest(args[0]), asNumber(args[1]), asNumber(args[2]));
    for (Wire &x : args) x = isLogic(op) ? asTest(x) : asNumber(x);
    if (const char *direct = directOp(op)) {
      if (isLogic(op) && args.size() == 1) return e_.negated(args[0]);
      if (args.size() == 1) return e_.unary(direct, args[0]);
      return scalar::scalarOpIsTest(op) ? e_.test(direct, args[0], args[1]) : e_.binary(direct, args[0], args[1]);
    }
    return args.size() == 1 ? composed(op, args[0]) : composed(op, args[0], args[1]);
  }

  bool isReal() const { return IsFloatingDataType(type_); }
  Wire never(const Wire &x) { return e_.negated(e_.test("Equal", x, x)); } // of integers

  Wire composed(ScalarOp op, const Wire &x) {
    switch (op) {
    case ScalarOp::kNegate: return e_.unary("Neg", x);
    case ScalarOp::exp2: return e_.binary("Pow", number(2), x);
    case ScalarOp::expm1: return expm1(e_, x);
    case ScalarOp::log2: return e_.scaled(e_.unary("Log", x), 1 / kLn2);
    case ScalarOp::log10: return e_.scaled(e_.unary("Log", x), 1 / kLn10);
    case ScalarOp::log1p: return log1p(e_, x);
    case ScalarOp::rsqrt: return e_.unary("Reciprocal", e_.unary("Sqrt", x));
    case ScalarOp::erfc: return e_.sub(number(1), e_.unary("Erf", x));
    case ScalarOp::softplus: return softplus(e_, x);
    case ScalarOp::floor: return isReal() ? e_.unary("Floor", x) : x;
    case ScalarOp::ceil: return isReal() ? e_.unary("Ceil", x) : x;
    case ScalarOp::round: return isReal() ? e_.unary("Round", x) : x;
    case ScalarOp::trunc: return isReal() ? truncated(e_, x) : x;
    case ScalarOp::isnan: return isReal() ? e_.node("IsNaN", {x}, {}, kBool, x.shape) : never(x);
    case ScalarOp::isinf: return isReal() ? isInfinite(x) : never(x);
    case ScalarOp::isfinite: return isReal() ? isFinite(x) : e_.test("Equal", x, x);
    default: e_.refuse(std::string("ONNX has no function ") + scalar::scalarOpName(op));
    }
  }

  /// Of f32 and f64 before operator set 20.
  Wire isInfinite(const Wire &x) {
    return e_.node("IsInf", {x.type == kFloat16 ? e_.cast(x, kFloat) : x}, {}, kBool, x.shape);
  }
  Wire isFinite(const Wire &x) {
    return e_.negated(e_.test("Or", e_.node("IsNaN", {x}, {}, kBool, x.shape), isInfinite(x)));
  }

  Wire composed(ScalarOp op, const Wire &x, const Wire &y) {
    switch (op) {
    case ScalarOp::kNotEqual: return e_.negated(e_.test("Equal", x, y));
    case ScalarOp::kDiv: return isReal() ? e_.div(x, y) : wholeQuotient(x, y);
    case ScalarOp::fmod: return remainder(x, y);
    case ScalarOp::floormod: return floorMod(x, y);
    case ScalarOp::truncdiv: return isReal() ? truncDiv(x, y) : wholeQuotient(x, y);
    case ScalarOp::floordiv: return floorDiv(x, y);
    case ScalarOp::atan2: return atan2(x, y);
    case ScalarOp::bitwise_and: return bits("BitwiseAnd", "And", x, y);
    case ScalarOp::bitwise_or: return bits("BitwiseOr", "Or", x, y);
    case ScalarOp::bitwise_xor: return bits("BitwiseXor", "Xor", x, y);
    default: e_.refuse(std::string("ONNX has no function ") + scalar::scalarOpName(op));
    }
  }

  Wire bits(const char *op, const char *ofBool, const Wire &x, const Wire &y) {
    if (e_.instance.inputDescs()[0].data_type() == kBool) return asNumber(e_.test(ofBool, asTest(x), asTest(y)));
    e_.need(18, op);
    return e_.binary(op, x, y);
  }

  Wire isZero(const Wire &x) { return e_.test("Equal", x, number(0)); }

  /// Of integers: 0 for a division by zero, which ONNX leaves open; and no division by -1, which may overflow.
  Wire wholeQuotient(const Wire &x, const Wire &y) {
    const Wire zero = isZero(y), minusOne = e_.test("Equal", y, number(-1));
    const Wire safe = e_.select(e_.test("Or", zero, minusOne), number(1), y);
    return e_.select(zero, number(0), e_.select(minusOne, e_.sub(number(0), x), e_.div(x, safe)));
  }

  /// Of integers, with the sign of y; 0 for a division by zero.
  Wire wholeMod(const Wire &x, const Wire &y) {
    const Wire whole = e_.test("Or", isZero(y), e_.test("Equal", y, number(-1)));
    return e_.binary("Mod", x, e_.select(whole, number(1), y));
  }

  /// With the sign of x. Of integers 0 for a division by zero; fmod=1 is computed in f64 by runtimes.
  Wire remainder(const Wire &x, const Wire &y) {
    if (isReal()) return e_.node("Mod", {x, y}, {{"fmod", 1}}, type_, broadcast(x.shape, y.shape));
    const Wire r = wholeMod(x, y);
    return e_.select(signsDiffer(r, x), e_.sub(r, y), r);
  }

  /// Where a remainder r is not 0 and has another sign than y.
  Wire signsDiffer(const Wire &r, const Wire &y) {
    return e_.test("And", e_.negated(isZero(r)),
                   e_.test("Xor", e_.test("Less", r, number(0)), e_.test("Less", y, number(0))));
  }
  Wire floorMod(const Wire &x, const Wire &y) {
    if (!isReal()) return wholeMod(x, y);
    const Wire r = remainder(x, y);
    return e_.select(signsDiffer(r, y), e_.add(r, y), r);
  }
  Wire truncDiv(const Wire &x, const Wire &y) {
    const Wire q = e_.unary("Round", e_.div(e_.sub(x, remainder(x, y)), y));
    return e_.select(e_.test("Greater", e_.unary("Abs", q), number(0)), q, truncated(e_, e_.div(x, y)));
  }
  Wire floorDiv(const Wire &x, const Wire &y) {
    const Wire q = isReal() ? truncDiv(x, y) : wholeQuotient(x, y), r = remainder(x, y);
    const Wire down = e_.select(signsDiffer(r, y), e_.sub(q, number(1)), q);
    const Wire of = isReal() ? e_.select(e_.node("IsNaN", {r}, {}, kBool, r.shape), r, down) : down;
    return e_.select(isZero(y), q, of);
  }

  Wire atan2(const Wire &y, const Wire &x) {
    // Of the quotient with the absolute values no infinity is lost; the quadrant follows from the signs.
    const Wire ay = e_.unary("Abs", y), ax = e_.unary("Abs", x);
    const Wire infinite = e_.test("Equal", e_.binary("Min", ax, ay), number(kInf));
    const Wire safe = e_.select(e_.test("Equal", e_.binary("Max", ax, ay), number(0)), number(1), ax);
    const Wire angle = e_.select(infinite, number(kPi / 4), e_.unary("Atan", e_.div(ay, safe)));
    // -0 is less than 0 by its reciprocal.
    const auto isNegative = [&](const Wire &v) {
      return e_.test("Less", e_.select(isZero(v), e_.div(number(1), v), v), number(0));
    };
    const Wire half = e_.select(isNegative(x), e_.sub(number(kPi), angle), angle);
    return e_.select(isNegative(y), e_.unary("Neg", half), half);
  }

  Emission &e_;
  const ScalarProgram &program_;
  DataType type_ = kInvalidDataType;
  std::vector<Wire> inputs_;
  std::vector<scalar::ScalarValue> values_;
};

} // namespace

Wire expm1(Emission &e, const Wire &x) {
  const Wire half = e.unary("Tanh", e.scaled(x, 0.5));
  return e.mul(half, e.plus(e.unary("Exp", x), 1));
}

Wire log1p(Emission &e, const Wire &x) {
  // log(u) x / (u - 1) takes back what 1 + x has lost.
  const Wire u = e.plus(x, 1), less = e.plus(u, -1);
  const Wire same = e.test("Or", e.test("Equal", less, e.number(x, 0)), e.test("Equal", less, e.number(x, kInf)));
  const Wire factor = e.div(x, e.select(same, e.number(x, 1), less));
  return e.select(same, x, e.mul(e.unary("Log", u), factor));
}

Wire softplus(Emission &e, const Wire &x) {
  const Wire small = e.unary("Exp", e.unary("Neg", e.unary("Abs", x)));
  return e.add(e.binary("Max", x, e.number(x, 0)), log1p(e, small));
}

Wire truncated(Emission &e, const Wire &x) {
  return e.select(e.test("Less", x, e.number(x, 0)), e.unary("Ceil", x), e.unary("Floor", x));
}

std::string missingFunction(const ScalarProgram &program) {
  for (const ScalarProgram::Node &node : program.nodes()) switch (node.op) {
    case ScalarOp::lgamma:
    case ScalarOp::digamma:
    case ScalarOp::trigamma:
    case ScalarOp::polygamma: return scalar::scalarOpName(node.op);
    default: break;
    }
  return "";
}

namespace {

/// Whether the numbers beside an op's tensors are the same in f16.
bool areExactInHalf(const Emission &e, const ScalarProgram &program) {
  const auto isExact = [](double v) {
    return std::isnan(v) || convertElement<double>(convertElement<float16>(v)) == v;
  };
  for (const ScalarProgram::Node &node : program.nodes())
    if (node.op == ScalarOp::kConstant && !isExact(node.value)) return false;
  if (!program.attributes) return true;
  const auto values = program.attributes(e.instance.wrapper(), e.instance.inputDescs()[0].data_type());
  return std::all_of(values.begin(), values.end(), [&](const scalar::ScalarValue &v) { return isExact(v.real); });
}

} // namespace

void emitExpression(Emission &e) {
  const ScalarProgram &program = *e.instance.def().scalar;
  // One function is computed in the op's own type, if its numbers have it; of several each would be rounded to f16.
  size_t functions = 0;
  for (const ScalarProgram::Node &node : program.nodes())
    functions += node.op != ScalarOp::kConstant && node.op != ScalarOp::kParameter;
  e.types = functions > 1 || !areExactInHalf(e, program) ? Types::kWide : Types::kNumbers;
  e.out(ExpressionWriter(e, program).write());
}

} // namespace opc::onnx_export
