// The cost of an op from its definition and the shapes of its pieces.
// SPDX-License-Identifier: Apache-2.0
#include "OpCost.h"

#include "CountedOps.h"
#include "HostContexts.h"
#include "MutableInputs.h"
#include "opc/Scalar.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

namespace opc {

using user_op::TensorDesc;

namespace {

// An op without a better rule: about a multiplication and an addition for each element that it touches.
constexpr double kOperationsPerElement = 2;

double bytesOf(const TensorDesc &t) { return elementsOf(t) * static_cast<double>(GetSizeOfDataType(t.data_type())); }

/// Ops that read of their first input no more than they write.
bool picksFromFirstInput(const std::string &op) {
  static const char *const kOps[] = {"batch_gather", "dim_gather", "embedding", "gather",
                                     "gather_nd",    "narrow",     "slice"};
  return std::binary_search(std::begin(kOps), std::end(kOps), op);
}

/// Inputs that give a shape and no values: x_like, like; the table of embedding_grad.
bool lendsShapeOnly(const std::string &op, const std::string &arg) {
  if (arg == "like" || (arg.size() > 5 && arg.compare(arg.size() - 5, 5, "_like") == 0)) return true;
  return op == "embedding_grad" && arg == "weight";
}

/// The terms of an einsum-like rule, "m k, k n -> m n": factor names by argument, without marks and the order.
struct RuleTerms {
  std::vector<std::vector<std::string>> inputs, outputs;
};
std::optional<RuleTerms> parseRule(const std::string &text) {
  const size_t begin = text.find(':') + 1, arrow = text.find("->"); // without a colon 0
  if (arrow == std::string::npos) return std::nullopt;
  const auto side = [](const std::string &s) {
    std::vector<std::vector<std::string>> terms(1);
    std::string word;
    const auto flush = [&] {
      if (!word.empty() && word != "+" && word != "?") terms.back().push_back(std::move(word));
      word.clear();
    };
    for (char c : s) {
      if (c == ',')
        flush(), terms.emplace_back();
      else if (std::isspace(static_cast<unsigned char>(c)))
        flush();
      else
        word += c;
    }
    flush();
    return terms;
  };
  return RuleTerms{side(text.substr(begin, arrow - begin)), side(text.substr(arrow + 2))};
}

/// 2 times the product of all factors, where the rule says that the op is a contraction: a factor is summed that at
/// least two floating inputs have, and that no output has. Rules with "...", "." or merged axes are not read.
std::optional<double> contraction(const OpInstance &op) {
  const user_op::ShardingRule &rule = op.def().sharding;
  if (rule.reductions.empty()) return std::nullopt;
  const std::optional<RuleTerms> terms = parseRule(rule.einsum);
  if (!terms) return std::nullopt;
  std::map<std::string, double> extent;
  std::map<std::string, int> readers;
  for (size_t a = 0; a < terms->inputs.size() && a < op.def().inputs.size(); ++a) {
    const int flat = op.findInput(op.def().inputs[a].name, 0);
    if (flat < 0) continue;
    const TensorDesc &desc = op.inputDescs()[static_cast<size_t>(flat)];
    const std::vector<std::string> &term = terms->inputs[a];
    if (!IsFloatingDataType(desc.data_type())) continue;
    if (term.size() != static_cast<size_t>(desc.shape().NumAxes())) return std::nullopt;
    for (size_t i = 0; i < term.size(); ++i) {
      if (!std::isalpha(static_cast<unsigned char>(term[i][0])) || term[i].back() == '*') return std::nullopt;
      double &e = extent[term[i]];
      e = std::max(e, static_cast<double>(desc.shape().At(static_cast<int64_t>(i))));
      ++readers[term[i]];
    }
  }
  const bool contracts = std::any_of(rule.reductions.begin(), rule.reductions.end(),
                                     [&](const auto &r) { return readers.count(r.factor) && readers[r.factor] > 1; });
  if (!contracts) return std::nullopt;
  double product = 2;
  for (const auto &[factor, e] : extent) product *= e;
  return product;
}

double operations(const OpInstance &op, double touched, bool *isContraction) {
  *isContraction = true;
  if (op.def().complexity) {
    std::vector<TensorDesc> inputs = op.inputDescs(), outputs = op.outputDescs();
    HostInferContext ctx(op, &inputs, &outputs);
    const Maybe<double> said = op.def().complexity(&ctx);
    // A rule may refuse a piece, whose shape contradicts the attributes of the whole.
    if (said.IsOk() && said.value() >= 0) return said.value();
  }
  if (const std::optional<double> product = contraction(op)) return *product;
  *isContraction = false;
  if (op.def().scalar && !op.outputDescs().empty()) {
    double n = 0;
    for (const TensorDesc &t : op.outputDescs()) n = std::max(n, elementsOf(t));
    return n * scalarOperations(*op.def().scalar);
  }
  return countedOperations(op).value_or(kOperationsPerElement * touched);
}

} // namespace

double scalarOperations(const scalar::ScalarProgram &program) {
  using scalar::ScalarOp;
  double sum = 0;
  for (const auto &node : program.nodes()) switch (node.op) {
    case ScalarOp::kConstant:
    case ScalarOp::kParameter: break;
    case ScalarOp::kDiv:
    case ScalarOp::sqrt:
    case ScalarOp::rsqrt:
    case ScalarOp::fmod:
    case ScalarOp::floormod:
    case ScalarOp::floordiv:
    case ScalarOp::truncdiv: sum += kOperationsPerDivision; break;
    case ScalarOp::pow:
    case ScalarOp::polygamma:
    case ScalarOp::softplus:
    case ScalarOp::atan2: sum += 2 * kOperationsPerFunction; break;
#define OPC_FUNCTION(name)                                                                                             \
  case ScalarOp::name: sum += kOperationsPerFunction; break;
      OPC_FUNCTION(exp)
      OPC_FUNCTION(exp2)
      OPC_FUNCTION(expm1)
      OPC_FUNCTION(log)
      OPC_FUNCTION(log2)
      OPC_FUNCTION(log10)
      OPC_FUNCTION(log1p)
      OPC_FUNCTION(sin)
      OPC_FUNCTION(cos)
      OPC_FUNCTION(tan)
      OPC_FUNCTION(asin)
      OPC_FUNCTION(acos)
      OPC_FUNCTION(atan)
      OPC_FUNCTION(sinh)
      OPC_FUNCTION(cosh)
      OPC_FUNCTION(tanh)
      OPC_FUNCTION(asinh)
      OPC_FUNCTION(acosh)
      OPC_FUNCTION(atanh)
      OPC_FUNCTION(erf)
      OPC_FUNCTION(erfc)
      OPC_FUNCTION(lgamma)
      OPC_FUNCTION(digamma)
      OPC_FUNCTION(trigamma)
      OPC_FUNCTION(sigmoid)
#undef OPC_FUNCTION
    default: sum += 1;
    }
  return sum;
}

OpCost costOf(const OpInstance &op) {
  if (op.def().isView) return {};
  OpCost cost;
  const std::vector<bool> updated = mutableInputs(op);
  double touched = 0, written = 0;
  for (const TensorDesc &t : op.outputDescs()) {
    touched += elementsOf(t);
    written += bytesOf(t);
  }
  for (size_t i = 0; i < op.inputDescs().size(); ++i) {
    const TensorDesc &t = op.inputDescs()[i];
    if (lendsShapeOnly(op.def().name, op.inputArgs()[i].first)) continue;
    double n = elementsOf(t), b = bytesOf(t);
    if (i == 0 && !op.outputDescs().empty() && picksFromFirstInput(op.def().name)) {
      n = std::min(n, elementsOf(op.outputDescs()[0]));
      b = std::min(b, written);
    }
    touched += n;
    cost.bytes += updated[i] ? 2 * b : b;
  }
  cost.bytes += written;
  cost.flops = operations(op, touched, &cost.contraction);
  return cost;
}

} // namespace opc
