// Recording, printing, evaluating and analysing scalar expressions.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Scalar.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <tuple>
#include <unordered_map>

namespace opc::scalar {

const char *scalarOpName(ScalarOp op) {
  switch (op) {
  case ScalarOp::kConstant: return "constant";
  case ScalarOp::kParameter: return "parameter";
  case ScalarOp::kAdd: return "+";
  case ScalarOp::kSub: return "-";
  case ScalarOp::kMul: return "*";
  case ScalarOp::kDiv: return "/";
  case ScalarOp::kNegate: return "-";
  case ScalarOp::kLess: return "<";
  case ScalarOp::kLessEqual: return "<=";
  case ScalarOp::kGreater: return ">";
  case ScalarOp::kGreaterEqual: return ">=";
  case ScalarOp::kEqual: return "==";
  case ScalarOp::kNotEqual: return "!=";
  case ScalarOp::kAnd: return "&&";
  case ScalarOp::kOr: return "||";
  case ScalarOp::kXor: return "^";
  case ScalarOp::kNot: return "!";
  case ScalarOp::kSelect: return "select";
#define OPC_OP(name)                                                                                                   \
  case ScalarOp::name: return #name;
    OPC_SCALAR_UNARY_REAL(OPC_OP)
    OPC_SCALAR_UNARY_ANY(OPC_OP)
    OPC_SCALAR_TESTS(OPC_OP)
    OPC_SCALAR_BINARY_ANY(OPC_OP)
    OPC_SCALAR_BINARY_REAL(OPC_OP)
    OPC_SCALAR_BINARY_BITS(OPC_OP)
#undef OPC_OP
  }
  return "?";
}

int scalarOpArity(ScalarOp op) {
  if (op <= ScalarOp::kParameter) return 0;
  if (op == ScalarOp::kNegate || op == ScalarOp::kNot) return 1;
  if (op == ScalarOp::kSelect) return 3;
  if (op < ScalarOp::kSelect) return 2;
  switch (op) {
#define OPC_OP(name) case ScalarOp::name:
    OPC_SCALAR_BINARY_ANY(OPC_OP)
    OPC_SCALAR_BINARY_REAL(OPC_OP)
    OPC_SCALAR_BINARY_BITS(OPC_OP)
#undef OPC_OP
    return 2;
  default: return 1;
  }
}

bool scalarOpIsTest(ScalarOp op) {
  return (op >= ScalarOp::kLess && op <= ScalarOp::kNot) || op == ScalarOp::isnan || op == ScalarOp::isinf ||
         op == ScalarOp::isfinite;
}

Expr::Expr(double constant, int) {
  auto node = std::make_shared<Node>();
  node->value = constant;
  node_ = std::move(node);
}

Expr Expr::parameter(int32_t index) {
  auto node = std::make_shared<Node>();
  node->op = ScalarOp::kParameter;
  node->parameter = index;
  return Expr(std::move(node));
}

Expr Expr::make(ScalarOp op, std::initializer_list<Expr> args) {
  auto node = std::make_shared<Node>();
  node->op = op;
  size_t i = 0;
  for (const Expr &a : args) node->args[i++] = a.node();
  return Expr(std::move(node));
}

#define OPC_ONE(name)                                                                                                  \
  Expr Functions::name(const Expr &x) { return Expr::make(ScalarOp::name, {x}); }
#define OPC_TWO(name)                                                                                                  \
  Expr Functions::name(const Expr &a, const Expr &b) { return Expr::make(ScalarOp::name, {a, b}); }
OPC_SCALAR_UNARY_REAL(OPC_ONE)
OPC_SCALAR_UNARY_ANY(OPC_ONE)
OPC_SCALAR_TESTS(OPC_ONE)
OPC_SCALAR_BINARY_ANY(OPC_TWO)
OPC_SCALAR_BINARY_REAL(OPC_TWO)
OPC_SCALAR_BINARY_BITS(OPC_TWO)
#undef OPC_ONE
#undef OPC_TWO
Expr Functions::select(const Expr &c, const Expr &a, const Expr &b) { return Expr::make(ScalarOp::kSelect, {c, a, b}); }

std::vector<std::string> detail::splitNames(const char *names) {
  std::vector<std::string> result(1);
  for (const char *p = names; *p; ++p) {
    if (*p == ',')
      result.emplace_back();
    else if (*p != ' ')
      result.back() += *p;
  }
  return result;
}

ScalarProgram::ScalarProgram(const Expr &result, std::vector<std::string> names, int32_t inputs)
    : names_(std::move(names)), inputs_(inputs) {
  using Key = std::tuple<ScalarOp, uint64_t, int32_t, int32_t, int32_t, int32_t>;
  std::map<Key, int32_t> known;
  std::unordered_map<const Expr::Node *, int32_t> done;
  // Depth first with a stack of our own: derivatives of derivatives can be deep.
  std::vector<const Expr::Node *> stack{result.node().get()};
  while (!stack.empty()) {
    const Expr::Node *n = stack.back();
    if (done.count(n)) {
      stack.pop_back();
      continue;
    }
    const int arity = scalarOpArity(n->op);
    bool ready = true;
    for (int i = arity; i-- > 0;)
      if (!done.count(n->args[i].get())) {
        stack.push_back(n->args[i].get());
        ready = false;
      }
    if (!ready) continue;
    stack.pop_back();
    Node node{n->op,
              n->op == ScalarOp::kConstant ? n->value : 0.0,
              n->op == ScalarOp::kParameter ? n->parameter : 0,
              {-1, -1, -1}};
    for (int i = 0; i < arity; ++i) node.args[i] = done.at(n->args[i].get());
    const Key key{node.op, f32::toBits(node.value), node.parameter, node.args[0], node.args[1], node.args[2]};
    auto [it, fresh] = known.emplace(key, static_cast<int32_t>(nodes_.size()));
    if (fresh) nodes_.push_back(node);
    done[n] = it->second;
  }
  // The result was finished last, but an equal node may have been numbered earlier.
  const int32_t last = done.at(result.node().get());
  nodes_.resize(static_cast<size_t>(last) + 1);
}

bool ScalarProgram::dependsOn(int32_t parameter) const {
  for (const Node &n : nodes_)
    if (n.op == ScalarOp::kParameter && n.parameter == parameter) return true;
  return false;
}

namespace {

/// The shortest decimal that reads back as the same double.
std::string numberText(double v) {
  char buffer[40];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, v);
    if (std::strtod(buffer, nullptr) == v) break;
  }
  return buffer;
}

int precedence(ScalarOp op) {
  switch (op) {
  case ScalarOp::kOr: return 1;
  case ScalarOp::kAnd: return 2;
  case ScalarOp::kXor: return 3;
  case ScalarOp::kEqual:
  case ScalarOp::kNotEqual: return 4;
  case ScalarOp::kLess:
  case ScalarOp::kLessEqual:
  case ScalarOp::kGreater:
  case ScalarOp::kGreaterEqual: return 5;
  case ScalarOp::kAdd:
  case ScalarOp::kSub: return 6;
  case ScalarOp::kMul:
  case ScalarOp::kDiv: return 7;
  case ScalarOp::kNegate:
  case ScalarOp::kNot: return 8;
  default: return 9;
  }
}

std::string nodeText(const ScalarProgram::Node &n, const std::vector<std::string> &names,
                     const std::vector<std::string> &texts, const std::vector<int> &levels) {
  auto arg = [&](int i, int least) {
    const auto a = static_cast<size_t>(n.args[i]);
    return levels[a] < least ? "(" + texts[a] + ")" : texts[a];
  };
  const int level = precedence(n.op);
  switch (n.op) {
  case ScalarOp::kConstant: return numberText(n.value);
  case ScalarOp::kParameter: return names[static_cast<size_t>(n.parameter)];
  case ScalarOp::kNegate:
  case ScalarOp::kNot: return scalarOpName(n.op) + arg(0, level);
  default: break;
  }
  if (level < 9) {
    // a + (b - c) and a * (b * c) keep their parentheses: floating-point sums are not associative.
    return arg(0, level) + " " + scalarOpName(n.op) + " " + arg(1, level + 1);
  }
  std::string s = std::string(scalarOpName(n.op)) + "(";
  for (int i = 0; i < scalarOpArity(n.op); ++i) s += (i ? ", " : "") + arg(i, 0);
  return s + ")";
}

} // namespace

std::string ScalarProgram::text() const {
  const size_t n = nodes_.size();
  std::vector<int> uses(n, 0);
  std::vector<double> length(n, 0);
  for (size_t i = 0; i < n; ++i) {
    length[i] = 8;
    for (int32_t a : nodes_[i].args)
      if (a >= 0) {
        ++uses[static_cast<size_t>(a)];
        length[i] += length[static_cast<size_t>(a)];
      }
  }
  const bool naming = length[n - 1] > 800;
  std::vector<std::string> texts(n);
  std::vector<int> levels(n);
  std::string bindings;
  int named = 0;
  for (size_t i = 0; i < n; ++i) {
    texts[i] = nodeText(nodes_[i], names_, texts, levels);
    levels[i] = nodes_[i].op == ScalarOp::kConstant && texts[i][0] == '-' ? 8 : precedence(nodes_[i].op);
    if (naming && uses[i] > 1 && scalarOpArity(nodes_[i].op) > 0) {
      std::string name = "t" + std::to_string(named++);
      bindings += name + " = " + texts[i] + "; ";
      texts[i] = std::move(name);
      levels[i] = 9;
    }
  }
  return bindings + texts[n - 1];
}

double ScalarProgram::evaluate(const std::vector<double> &p) const {
  std::vector<double> v(nodes_.size());
  using F = Functions;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node &n = nodes_[i];
    const double a = n.args[0] >= 0 ? v[static_cast<size_t>(n.args[0])] : 0,
                 b = n.args[1] >= 0 ? v[static_cast<size_t>(n.args[1])] : 0;
    switch (n.op) {
    case ScalarOp::kConstant: v[i] = n.value; break;
    case ScalarOp::kParameter: v[i] = p[static_cast<size_t>(n.parameter)]; break;
    case ScalarOp::kAdd: v[i] = a + b; break;
    case ScalarOp::kSub: v[i] = a - b; break;
    case ScalarOp::kMul: v[i] = a * b; break;
    case ScalarOp::kDiv: v[i] = a / b; break;
    case ScalarOp::kNegate: v[i] = -a; break;
    case ScalarOp::kLess: v[i] = a < b; break;
    case ScalarOp::kLessEqual: v[i] = a <= b; break;
    case ScalarOp::kGreater: v[i] = a > b; break;
    case ScalarOp::kGreaterEqual: v[i] = a >= b; break;
    case ScalarOp::kEqual: v[i] = a == b; break;
    case ScalarOp::kNotEqual: v[i] = a != b; break;
    case ScalarOp::kAnd: v[i] = a != 0 && b != 0; break;
    case ScalarOp::kOr: v[i] = a != 0 || b != 0; break;
    case ScalarOp::kXor: v[i] = (a != 0) != (b != 0); break;
    case ScalarOp::kNot: v[i] = a == 0; break;
    case ScalarOp::kSelect: v[i] = a != 0 ? b : v[static_cast<size_t>(n.args[2])]; break;
#define OPC_ONE(name)                                                                                                  \
  case ScalarOp::name: v[i] = F::name(a); break;
#define OPC_TWO(name)                                                                                                  \
  case ScalarOp::name: v[i] = F::name(a, b); break;
#define OPC_BITS(name)                                                                                                 \
  case ScalarOp::name: v[i] = static_cast<double>(F::name(static_cast<int64_t>(a), static_cast<int64_t>(b))); break;
      OPC_SCALAR_UNARY_REAL(OPC_ONE)
      OPC_SCALAR_UNARY_ANY(OPC_ONE)
      OPC_SCALAR_TESTS(OPC_ONE)
      OPC_SCALAR_BINARY_ANY(OPC_TWO)
      OPC_SCALAR_BINARY_REAL(OPC_TWO)
      OPC_SCALAR_BINARY_BITS(OPC_BITS)
#undef OPC_ONE
#undef OPC_TWO
#undef OPC_BITS
    }
  }
  return v.back();
}

Expr ScalarProgram::expr() const {
  std::vector<Expr> built;
  built.reserve(nodes_.size());
  for (const Node &n : nodes_) {
    if (n.op == ScalarOp::kConstant) {
      built.push_back(Expr(n.value));
      continue;
    }
    if (n.op == ScalarOp::kParameter) {
      built.push_back(Expr::parameter(n.parameter));
      continue;
    }
    auto node = std::make_shared<Expr::Node>();
    node->op = n.op;
    for (int i = 0; i < scalarOpArity(n.op); ++i) node->args[i] = built[static_cast<size_t>(n.args[i])].node();
    built.push_back(Expr(std::move(node)));
  }
  return built.back();
}

std::vector<std::vector<int32_t>> ScalarProgram::linearGroups() const {
  std::vector<std::vector<int32_t>> groups;
  if (inputs_ > 6) return groups;
  enum Kind { kZero, kFixed, kLinear, kOther };
  for (uint32_t set = 1; set < (1u << inputs_); ++set) {
    std::vector<Kind> kinds;
    for (const Node &n : nodes_) {
      auto k = [&](int i) { return n.args[i] < 0 ? kZero : kinds[static_cast<size_t>(n.args[i])]; };
      auto sum = [](Kind a, Kind b) {
        if (a == kZero) return b;
        if (b == kZero) return a;
        return a == b && a != kOther ? a : kOther;
      };
      switch (n.op) {
      case ScalarOp::kConstant: kinds.push_back(n.value == 0 ? kZero : kFixed); break;
      case ScalarOp::kParameter:
        kinds.push_back(n.parameter < inputs_ && (set >> n.parameter & 1u) ? kLinear : kFixed);
        break;
      case ScalarOp::kAdd:
      case ScalarOp::kSub: kinds.push_back(sum(k(0), k(1))); break;
      case ScalarOp::kNegate: kinds.push_back(k(0)); break;
      case ScalarOp::kMul:
        if (k(0) <= kFixed)
          kinds.push_back(k(0) == kZero ? kZero : k(1));
        else
          kinds.push_back(k(1) == kZero ? kZero : k(1) == kFixed ? k(0) : kOther);
        break;
      case ScalarOp::kDiv: kinds.push_back(k(1) <= kFixed ? k(0) : kOther); break;
      case ScalarOp::kSelect: kinds.push_back(k(0) <= kFixed ? sum(k(1), k(2)) : kOther); break;
      default: {
        bool fixed = true;
        for (int i = 0; i < scalarOpArity(n.op); ++i) fixed = fixed && k(i) <= kFixed;
        kinds.push_back(fixed ? kFixed : kOther);
      }
      }
    }
    if (kinds.back() != kLinear) continue;
    std::vector<int32_t> group;
    bool all = true; // a set with an unused input is the smaller set again
    for (int32_t i = 0; i < inputs_; ++i)
      if (set >> i & 1u) {
        group.push_back(i);
        all = all && dependsOn(i);
      }
    if (all) groups.push_back(std::move(group));
  }
  return groups;
}

} // namespace opc::scalar
