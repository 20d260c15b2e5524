// Arithmetic operations of ops by formula.
// SPDX-License-Identifier: Apache-2.0
#include "CountedOps.h"
#include "BuiltIn.h"

#include <map>
#include <set>
#include <string>

namespace opc {

namespace {

constexpr double kFunction = kOperationsPerFunction, kDivision = kOperationsPerDivision;

/// What formulas are made of.
class Measures {
public:
  explicit Measures(const OpInstance &op) : op_(op) {}

  double in(size_t number = 0) const {
    return number < op_.inputDescs().size() ? elementsOf(op_.inputDescs()[number]) : 0;
  }
  double out(size_t number = 0) const {
    return number < op_.outputDescs().size() ? elementsOf(op_.outputDescs()[number]) : 0;
  }
  size_t inputs() const { return op_.inputDescs().size(); }
  /// 1 where the argument is given, and 0.
  double has(const char *arg) const { return op_.findInput(arg, 0) >= 0; }
  /// 1 where an attribute is there and is neither 0 nor false, and 0.
  double isSet(const char *name) const {
    const auto found = op_.conf().attrs.find(name);
    if (found == op_.conf().attrs.end()) return 0;
    const auto &value = found->second.variant();
    if (const auto *flag = std::get_if<bool>(&value)) return *flag;
    if (const auto *number = std::get_if<float>(&value)) return *number != 0;
    const auto *number = std::get_if<double>(&value);
    return number && *number != 0;
  }

private:
  const OpInstance &op_;
};

using Formula = double (*)(const Measures &);

double each(const Measures &m) { return m.in(); }
double reduction(const Measures &m) { return std::max(0.0, m.in() - m.out()); }
/// Of update ops: what is done to the gradient first.
double gradientTerms(const Measures &m) {
  return 2 * (m.isSet("l1") + m.isSet("l2") + m.isSet("weight_decay")) + m.has("scale_by_tensor");
}

/// Ops by which values are moved, or written.
const std::set<std::string> &moves() {
  static const std::set<std::string> all = {"arange",
                                            "assign",
                                            "batch_gather",
                                            "broadcast_like",
                                            "cat",
                                            "concat",
                                            "constant",
                                            "constant_like",
                                            "constant_pad1d",
                                            "constant_pad2d",
                                            "constant_pad3d",
                                            "copy",
                                            "diag",
                                            "diagonal",
                                            "diagonal_grad",
                                            "dim_gather",
                                            "dim_scatter_update",
                                            "embedding",
                                            "expand",
                                            "eye",
                                            "flip",
                                            "gather",
                                            "gather_nd",
                                            "identity",
                                            "narrow",
                                            "narrow_grad",
                                            "one_hot",
                                            "ones_like",
                                            "pad",
                                            "range",
                                            "reflection_pad1d",
                                            "reflection_pad2d",
                                            "repeat",
                                            "replication_pad1d",
                                            "replication_pad2d",
                                            "roll",
                                            "slice",
                                            "slice_grad",
                                            "slice_update",
                                            "split_like",
                                            "stack",
                                            "tensor_scatter_nd_update",
                                            "tile",
                                            "transpose",
                                            "tril",
                                            "triu",
                                            "unfold",
                                            "upsample_nearest_2d",
                                            "zero_like"};
  return all;
}

const std::map<std::string, Formula> &formulas() {
  static const std::map<std::string, Formula> all = {
      // Sums.
      {"add_n", [](const Measures &m) { return m.out() * std::max(0.0, static_cast<double>(m.inputs()) - 1); }},
      {"bias_add", each},
      {"cast", each},
      {"embedding_grad", each},
      {"reduce_all", reduction},
      {"reduce_any", reduction},
      {"reduce_max", reduction},
      {"reduce_mean", [](const Measures &m) { return reduction(m) + kDivision * m.out(); }},
      {"reduce_min", reduction},
      {"reduce_prod", reduction},
      {"reduce_sum", reduction},
      {"reduce_sum_like", reduction},
      // The maximum, the difference from it, exp, the sum; then a quotient, or two differences.
      {"softmax", [](const Measures &m) { return m.in() * (3 + kFunction + kDivision); }},
      {"log_softmax", [](const Measures &m) { return m.in() * (5 + kFunction); }},
      // y * (dy - the sum of y * dy); dy - exp(y) * the sum of dy.
      {"softmax_grad", [](const Measures &m) { return m.in() * 4; }},
      {"log_softmax_grad", [](const Measures &m) { return m.in() * (3 + kFunction); }},
      // The mean (1), the variance (3), x - mean times inv_variance (2), gamma and beta; and for each row two
      // quotients,
      // epsilon and one over a square root.
      {"layer_norm",
       [](const Measures &m) {
         return m.in() * (6 + m.has("gamma") + m.has("beta")) + m.out(1) * (1 + 4 * kDivision);
       }},
      // The mean of squares (2), x times inv_rms (1), weight; for each row a quotient, epsilon, one over a square root.
      {"rms_norm", [](const Measures &m) { return m.in() * (3 + m.has("weight")) + m.out(1) * (1 + 3 * kDivision); }},
      // model -= rate * gradient.
      {"sgd_update", [](const Measures &m) { return m.in() * (2 + gradientTerms(m)); }},
      // The momentum (3), model -= rate * momentum (2).
      {"momentum_update", [](const Measures &m) { return m.in() * (5 + 2 * m.isSet("nesterov") + gradientTerms(m)); }},
      // m (3), v (4), model -= rate * m / (sqrt(v) * correction + epsilon) (4 and a square root and a quotient).
      {"adam_update",
       [](const Measures &m) { return m.in() * (11 + 2 * kDivision + m.isSet("amsgrad") + gradientTerms(m)); }},
  };
  return all;
}

} // namespace

double elementsOf(const user_op::TensorDesc &tensor) {
  double n = 1;
  for (const int64_t d : tensor.shape()) n *= static_cast<double>(d);
  return n;
}

std::optional<double> countedOperations(const OpInstance &op) {
  if (!isBuiltIn(op.def().origin)) return std::nullopt;
  if (moves().count(op.def().name)) return 0;
  const auto found = formulas().find(op.def().name);
  if (found == formulas().end()) return std::nullopt;
  return found->second(Measures(op));
}

} // namespace opc
