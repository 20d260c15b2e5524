// Symbolic differentiation of scalar expressions, with simplification.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Scalar.h"

#include <cmath>
#include <optional>

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

/// A node of the expression: its operands and their derivatives, and the node itself.
struct Operands {
  Expr u, w, du, dw, dz, v;
};

/// u^w: w u^(w-1) du + u^w log(u) dw. Where u^(w-1) overflows (u = 0, or near it) the first is 0 for w = 0 (and for a
/// NaN to the power 0, which is 1), and at u = 0 the second for w >= 0: products of 0 and infinity would be NaN.
Expr powerDerivative(const Simplify &s, const Operands &n) {
  Expr base(0.0), exponent(0.0);
  if (!n.du.isConstant(0)) {
    if (isConst(n.w)) {
      base = s.mul(s.mul(n.w, s.pow(n.u, Expr(valueOf(n.w) - 1))), n.du);
    } else {
      const Expr power = F::pow(n.u, n.w - Expr(1.0));
      base = s.mul(F::select(n.w == Expr(0.0) && !F::isfinite(power), Expr(0.0), n.w * power), n.du);
    }
  }
  if (!n.dw.isConstant(0))
    exponent = s.mul(F::select(n.u == Expr(0.0) && n.w >= Expr(0.0), Expr(0.0), n.v * F::log(n.u)), n.dw);
  return s.add(base, exponent);
}

/// The table of derivatives; nothing for a function that is not in it.
std::optional<Expr> derivativeOf(ScalarOp op, const Simplify &s, const Operands &n) {
  switch (op) {
  case ScalarOp::kAdd: return s.add(n.du, n.dw);
  case ScalarOp::kSub: return s.sub(n.du, n.dw);
  case ScalarOp::kNegate: return s.neg(n.du);
  case ScalarOp::kMul: return s.add(s.mul(n.du, n.w), s.mul(n.u, n.dw));
  case ScalarOp::kDiv: return s.sub(s.div(n.du, n.w), s.div(s.mul(n.v, n.dw), n.w));
  case ScalarOp::kSelect: return s.select(n.u, n.dw, n.dz);
  case ScalarOp::exp: return s.mul(n.v, n.du);
  case ScalarOp::exp2: return s.mul(s.mul(Expr(kLn2), n.v), n.du);
  case ScalarOp::expm1: return s.mul(F::exp(n.u), n.du);
  case ScalarOp::log: return s.div(n.du, n.u);
  case ScalarOp::log2: return s.div(n.du, s.mul(Expr(kLn2), n.u));
  case ScalarOp::log10: return s.div(n.du, s.mul(Expr(kLn10), n.u));
  case ScalarOp::log1p: return s.div(n.du, s.add(Expr(1.0), n.u));
  case ScalarOp::sqrt: return s.div(s.mul(Expr(0.5), n.du), n.v);
  case ScalarOp::rsqrt: return s.mul(s.div(s.mul(Expr(-0.5), n.v), n.u), n.du);
  case ScalarOp::sin: return s.mul(F::cos(n.u), n.du);
  case ScalarOp::cos: return s.neg(s.mul(F::sin(n.u), n.du));
  case ScalarOp::tan: return s.mul(Expr(1.0) + n.v * n.v, n.du);
  case ScalarOp::asin: return s.mul(F::rsqrt(Expr(1.0) - n.u * n.u), n.du);
  case ScalarOp::acos: return s.neg(s.mul(F::rsqrt(Expr(1.0) - n.u * n.u), n.du));
  case ScalarOp::atan: return s.div(n.du, Expr(1.0) + n.u * n.u);
  case ScalarOp::sinh: return s.mul(F::cosh(n.u), n.du);
  case ScalarOp::cosh: return s.mul(F::sinh(n.u), n.du);
  case ScalarOp::tanh: return s.mul(Expr(1.0) - n.v * n.v, n.du);
  case ScalarOp::asinh: return s.mul(F::rsqrt(n.u * n.u + Expr(1.0)), n.du);
  case ScalarOp::acosh: return s.mul(F::rsqrt(n.u * n.u - Expr(1.0)), n.du);
  case ScalarOp::atanh: return s.div(n.du, Expr(1.0) - n.u * n.u);
  case ScalarOp::erf: return s.mul(s.mul(Expr(kTwoOverSqrtPi), F::exp(-(n.u * n.u))), n.du);
  case ScalarOp::erfc: return s.mul(s.mul(Expr(-kTwoOverSqrtPi), F::exp(-(n.u * n.u))), n.du);
  case ScalarOp::lgamma: return s.mul(F::digamma(n.u), n.du);
  case ScalarOp::digamma: return s.mul(F::trigamma(n.u), n.du);
  case ScalarOp::trigamma: return s.mul(F::polygamma(Expr(2.0), n.u), n.du);
  case ScalarOp::polygamma:
    if (!isConst(n.u)) return std::nullopt;
    return s.mul(F::polygamma(Expr(valueOf(n.u) + 1), n.w), n.dw);
  case ScalarOp::softplus: return s.mul(F::sigmoid(n.u), n.du);
  case ScalarOp::sigmoid: return s.mul(n.v * (Expr(1.0) - n.v), n.du);
  case ScalarOp::abs: return s.mul(F::sign(n.u), n.du);
  case ScalarOp::sign:
  case ScalarOp::floor:
  case ScalarOp::ceil:
  case ScalarOp::round:
  case ScalarOp::trunc:
  case ScalarOp::floordiv:
  case ScalarOp::truncdiv: return Expr(0.0);
  case ScalarOp::pow: return powerDerivative(s, n);
  case ScalarOp::max:
  case ScalarOp::min: {
    const Expr first = op == ScalarOp::max ? n.u > n.w : n.u < n.w;
    return s.select(n.u == n.w, s.mul(Expr(0.5), s.add(n.du, n.dw)), s.select(first, n.du, n.dw));
  }
  case ScalarOp::fmod: return s.sub(n.du, s.mul(F::truncdiv(n.u, n.w), n.dw));
  case ScalarOp::floormod: return s.sub(n.du, s.mul(F::floordiv(n.u, n.w), n.dw));
  case ScalarOp::atan2: return s.div(s.sub(s.mul(n.w, n.du), s.mul(n.u, n.dw)), n.u * n.u + n.w * n.w);
  default: return std::nullopt;
  }
}

} // namespace

Result<ScalarProgram> ScalarProgram::derivative(int32_t parameter) const {
  if (isTest()) return ScalarProgram(Expr(0.0), names_, inputs_);
  const Simplify s{[](const std::shared_ptr<const Expr::Node> &n) { return Expr(n); }};
  std::vector<Expr> value, d;
  for (const Node &n : nodes_) {
    auto at = [&](const std::vector<Expr> &list, int i) {
      return n.args[i] >= 0 ? list[static_cast<size_t>(n.args[i])] : Expr(0.0);
    };
    const Expr u = at(value, 0), w = at(value, 1), du = at(d, 0), dw = at(d, 1), dz = at(d, 2);
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
    const bool fixed = du.isConstant(0) && dw.isConstant(0) && (n.op != ScalarOp::kSelect || dz.isConstant(0));
    std::optional<Expr> dv(Expr(0.0));
    if (n.op == ScalarOp::kParameter)
      dv = Expr(n.parameter == parameter ? 1.0 : 0.0);
    else if (!fixed && !scalarOpIsTest(n.op))
      dv = derivativeOf(n.op, s, {u, w, du, dw, dz, v});
    if (!dv)
      return Status(StatusCode::kUnsupported, "OPC0501",
                    std::string("the derivative of ") + scalarOpName(n.op) + " is not known")
          .withHelp("register a gradient with REGISTER_USER_OP_GRAD, or declare the op NoGrad()");
    value.push_back(std::move(v));
    d.push_back(std::move(*dv));
  }
  ScalarProgram result(d.back(), names_, inputs_);
  result.attributes = attributes;
  return result;
}

} // namespace opc::scalar
