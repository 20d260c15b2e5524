// Symbolic differentiation of scalar expressions, with simplification.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Scalar.h"

#include <cmath>

namespace opc::scalar {
namespace {

using F = Functions;

bool isConst(const Expr &e) { return e.node()->op == ScalarOp::kConstant; }
double valueOf(const Expr &e) { return e.node()->value; }
bool isNegation(const Expr &e) { return e.node()->op == ScalarOp::kNegate; }

// Builders that drop what has no effect. They treat 0 * x as 0: a structural zero, not a computed one.
struct Simplify {
  std::function<Expr(const std::shared_ptr<const Expr::Node> &)> wrap;

  Expr argument(const Expr &e, int i) const { return wrap(e.node()->args[i]); }
  Expr neg(const Expr &a) const {
    if (isConst(a)) return Expr(-valueOf(a));
    if (isNegation(a)) return argument(a, 0);
    return -a;
  }
  Expr add(const Expr &a, const Expr &b) const {
    if (isConst(a) && isConst(b)) return Expr(valueOf(a) + valueOf(b));
    if (a.isConstant(0)) return b;
    if (b.isConstant(0)) return a;
    if (isNegation(b)) return a - argument(b, 0);
    return a + b;
  }
  Expr sub(const Expr &a, const Expr &b) const {
    if (isConst(a) && isConst(b)) return Expr(valueOf(a) - valueOf(b));
    if (a.isConstant(0)) return neg(b);
    if (b.isConstant(0)) return a;
    if (isNegation(b)) return a + argument(b, 0);
    return a - b;
  }
  Expr mul(const Expr &a, const Expr &b) const {
    if (isConst(a) && isConst(b)) return Expr(valueOf(a) * valueOf(b));
    if (isConst(b)) return mul(b, a); // constants first
    if (a.isConstant(0)) return Expr(0.0);
    if (a.isConstant(1)) return b;
    if (a.isConstant(-1)) return neg(b);
    if (isNegation(a)) return neg(mul(argument(a, 0), b));
    if (isNegation(b)) return neg(mul(a, argument(b, 0)));
    if (b.node()->op == ScalarOp::kMul && isConst(argument(b, 0))) {
      if (isConst(a)) return mul(Expr(valueOf(a) * valueOf(argument(b, 0))), argument(b, 1));
      return mul(argument(b, 0), mul(a, argument(b, 1)));
    }
    return a * b;
  }
  Expr div(const Expr &a, const Expr &b) const {
    if (isConst(a) && isConst(b) && valueOf(b) != 0) return Expr(valueOf(a) / valueOf(b));
    if (a.isConstant(0)) return Expr(0.0);
    if (b.isConstant(1)) return a;
    if (isNegation(a)) return neg(div(argument(a, 0), b));
    return a / b;
  }
  Expr select(const Expr &c, const Expr &a, const Expr &b) const {
    if (a.node() == b.node() || (isConst(a) && isConst(b) && valueOf(a) == valueOf(b))) return a;
    return F::select(c, a, b);
  }
  Expr pow(const Expr &a, const Expr &b) const {
    if (b.isConstant(0)) return Expr(1.0);
    if (b.isConstant(1)) return a;
    return F::pow(a, b);
  }
};

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kLn10 = 2.30258509299404568402;
constexpr double kTwoOverSqrtPi = 1.12837916709551257390;

} // namespace

Result<ScalarProgram> ScalarProgram::derivative(int32_t parameter) const {
  if (isTest()) return ScalarProgram(Expr(0.0), names_, inputs_);
  Simplify s{[](const std::shared_ptr<const Expr::Node> &n) { return Expr(n); }};
  std::vector<Expr> value, d;
  for (const Node &n : nodes_) {
    auto at = [&](const std::vector<Expr> &list, int i) {
      return n.args[i] >= 0 ? list[static_cast<size_t>(n.args[i])] : Expr(0.0);
    };
    const Expr u = at(value, 0), w = at(value, 1), du = at(d, 0), dw = at(d, 1);
    // The node itself, on the operands already built.
    Expr v(n.value);
    switch (scalarOpArity(n.op)) {
    case 0:
      if (n.op == ScalarOp::kParameter) v = Expr::parameter(n.parameter);
      break;
    case 1: v = Expr::make(n.op, {u}); break;
    case 2: v = Expr::make(n.op, {u, w}); break;
    default: v = Expr::make(n.op, {u, w, at(value, 2)});
    }
    const bool fixed = du.isConstant(0) && dw.isConstant(0) && (n.op != ScalarOp::kSelect || at(d, 2).isConstant(0));
    Expr dv(0.0);
    if (n.op == ScalarOp::kParameter) {
      dv = Expr(n.parameter == parameter ? 1.0 : 0.0);
    } else if (!fixed && !scalarOpIsTest(n.op)) {
      switch (n.op) {
      case ScalarOp::kAdd: dv = s.add(du, dw); break;
      case ScalarOp::kSub: dv = s.sub(du, dw); break;
      case ScalarOp::kNegate: dv = s.neg(du); break;
      case ScalarOp::kMul: dv = s.add(s.mul(du, w), s.mul(u, dw)); break;
      case ScalarOp::kDiv: dv = s.sub(s.div(du, w), s.div(s.mul(v, dw), w)); break;
      case ScalarOp::kSelect: dv = s.select(u, dw, at(d, 2)); break;
      case ScalarOp::exp: dv = s.mul(v, du); break;
      case ScalarOp::exp2: dv = s.mul(s.mul(Expr(kLn2), v), du); break;
      case ScalarOp::expm1: dv = s.mul(F::exp(u), du); break;
      case ScalarOp::log: dv = s.div(du, u); break;
      case ScalarOp::log2: dv = s.div(du, s.mul(Expr(kLn2), u)); break;
      case ScalarOp::log10: dv = s.div(du, s.mul(Expr(kLn10), u)); break;
      case ScalarOp::log1p: dv = s.div(du, s.add(Expr(1.0), u)); break;
      case ScalarOp::sqrt: dv = s.div(s.mul(Expr(0.5), du), v); break;
      case ScalarOp::rsqrt: dv = s.mul(s.div(s.mul(Expr(-0.5), v), u), du); break;
      case ScalarOp::sin: dv = s.mul(F::cos(u), du); break;
      case ScalarOp::cos: dv = s.neg(s.mul(F::sin(u), du)); break;
      case ScalarOp::tan: dv = s.mul(Expr(1.0) + v * v, du); break;
      case ScalarOp::asin: dv = s.mul(F::rsqrt(Expr(1.0) - u * u), du); break;
      case ScalarOp::acos: dv = s.neg(s.mul(F::rsqrt(Expr(1.0) - u * u), du)); break;
      case ScalarOp::atan: dv = s.div(du, Expr(1.0) + u * u); break;
      case ScalarOp::sinh: dv = s.mul(F::cosh(u), du); break;
      case ScalarOp::cosh: dv = s.mul(F::sinh(u), du); break;
      case ScalarOp::tanh: dv = s.mul(Expr(1.0) - v * v, du); break;
      case ScalarOp::asinh: dv = s.mul(F::rsqrt(u * u + Expr(1.0)), du); break;
      case ScalarOp::acosh: dv = s.mul(F::rsqrt(u * u - Expr(1.0)), du); break;
      case ScalarOp::atanh: dv = s.div(du, Expr(1.0) - u * u); break;
      case ScalarOp::erf: dv = s.mul(s.mul(Expr(kTwoOverSqrtPi), F::exp(-(u * u))), du); break;
      case ScalarOp::erfc: dv = s.mul(s.mul(Expr(-kTwoOverSqrtPi), F::exp(-(u * u))), du); break;
      case ScalarOp::lgamma: dv = s.mul(F::digamma(u), du); break;
      case ScalarOp::digamma: dv = s.mul(F::trigamma(u), du); break;
      case ScalarOp::sigmoid: dv = s.mul(v * (Expr(1.0) - v), du); break;
      case ScalarOp::abs: dv = s.mul(F::sign(u), du); break;
      case ScalarOp::sign:
      case ScalarOp::floor:
      case ScalarOp::ceil:
      case ScalarOp::round:
      case ScalarOp::trunc:
      case ScalarOp::floordiv:
      case ScalarOp::truncdiv: break;
      // u^w: w u^(w-1) du + u^w log(u) dw; the first is 0 for w = 0 and the second for u = 0, where limits would be
      // NaN.
      case ScalarOp::pow: {
        Expr base(0.0), exponent(0.0);
        if (!du.isConstant(0)) {
          if (isConst(w))
            base = s.mul(s.mul(w, s.pow(u, Expr(valueOf(w) - 1))), du);
          else
            base = s.mul(F::select(w == Expr(0.0), Expr(0.0), w * F::pow(u, w - Expr(1.0))), du);
        }
        if (!dw.isConstant(0)) exponent = s.mul(F::select(u == Expr(0.0), Expr(0.0), v * F::log(u)), dw);
        dv = s.add(base, exponent);
        break;
      }
      case ScalarOp::max:
      case ScalarOp::min: {
        const Expr first = n.op == ScalarOp::max ? u > w : u < w;
        dv = s.select(u == w, s.mul(Expr(0.5), s.add(du, dw)), s.select(first, du, dw));
        break;
      }
      case ScalarOp::fmod: dv = s.sub(du, s.mul(F::truncdiv(u, w), dw)); break;
      case ScalarOp::floormod: dv = s.sub(du, s.mul(F::floordiv(u, w), dw)); break;
      case ScalarOp::atan2: dv = s.div(s.sub(s.mul(w, du), s.mul(u, dw)), u * u + w * w); break;
      default:
        return Status(StatusCode::kUnsupported, "OPC0501",
                      std::string("the derivative of ") + scalarOpName(n.op) + " is not known")
            .withHelp("register a gradient with REGISTER_USER_OP_GRAD, or declare the op NoGrad()");
      }
    }
    value.push_back(std::move(v));
    d.push_back(std::move(dv));
  }
  ScalarProgram result(d.back(), names_, inputs_);
  result.attributes = attributes;
  return result;
}

} // namespace opc::scalar
