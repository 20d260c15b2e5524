// Gradient rules of operators that are written in Python: an operator of their own, or ops that were recorded.
// SPDX-License-Identifier: Apache-2.0
#include "ManifestRules.h"

#include "AttrWire.h"
#include "opc/GradientRule.h"

#include <charconv>
#include <map>

namespace opc::python {

using manifest::Gradient;
using user_op::GradientRule;

namespace {

bool needsAny(const GradientRule &g) {
  for (const auto &arg : g.op().op_conf().inputs)
    for (size_t i = 0; i < arg.tensors.size(); ++i)
      if (g.needs(arg.name, static_cast<int32_t>(i))) return true;
  return false;
}

int32_t countOf(const GradientRule &g, const Gradient::Binding &b) {
  return b.what() == "x" ? g.op().input_size(b.of()) : g.op().output_size(b.of());
}

/// One operator computes all gradients.
void byOperator(const manifest::PythonOp &op, GradientRule &g) {
  const Gradient &rule = op.gradient();
  auto made = g.add(rule.op(), "rule");
  for (const auto &b : rule.input())
    for (int32_t i = 0, n = countOf(g, b); i < n; ++i)
      made.in(b.arg(), b.what() == "x" ? g.x(b.of(), i) : b.what() == "y" ? g.y(b.of(), i) : g.dy(b.of(), i));
  for (const auto &attr : op.attr()) made.attr(attr.name(), g.attrValue(attr.name()));
  for (const auto &b : rule.output()) {
    const int32_t n = g.op().input_size(b.of());
    if (n > 0) made.output(b.arg(), n);
    if (n == 0 || b.shape_attr().empty()) continue;
    made.attr(b.shape_attr(), g.shape(b.of()));
    made.attr(b.type_attr(), g.desc(b.of()).data_type());
  }
  for (const auto &b : rule.output())
    for (int32_t i = 0, n = g.op().input_size(b.of()); i < n; ++i)
      if (g.needs(b.of(), i)) g.bind(b.of(), i, made.out(b.arg(), i));
}

/// The ops that a rule in Python has built once, built again.
void byRecordedOps(const manifest::PythonOp &op, GradientRule &g) {
  std::map<std::string, user_op::GradientOp> made;
  auto tensor = [&](const std::string &text) -> std::string {
    const TensorName r = tensorNamed(text).value_or(TensorName());
    if (r.kind == "x") return g.x(r.arg, r.index);
    if (r.kind == "y") return g.y(r.arg, r.index);
    if (r.kind == "dy") return g.dy(r.arg, r.index);
    const auto it = made.find(r.kind);
    if (it == made.end()) throw ContractError("the manifest's gradient rule names no op '" + r.kind + "' before");
    return it->second.out(r.arg, r.index);
  };
  for (const auto &node : op.gradient().node()) {
    auto &added = made.emplace(node.name(), g.add(node.op(), node.name())).first->second;
    for (const auto &port : node.input())
      for (const std::string &t : port.tensor()) added.in(port.arg(), tensor(t));
    for (const auto &setting : node.attr())
      added.attr(setting.name(),
                 setting.has_same_as() ? g.attrValue(setting.same_as()) : wire::fromProto(setting.value()));
    for (const auto &port : node.output()) added.output(port.arg(), std::max(1, port.tensor_size()));
  }
  for (const auto &result : op.gradient().result()) {
    const TensorName to = tensorNamed("x:" + result.arg()).value_or(TensorName());
    if (g.op().input_size(to.arg) > to.index && g.needs(to.arg, to.index))
      g.bind(to.arg, to.index, tensor(result.tensor()));
  }
}

} // namespace

std::optional<TensorName> tensorNamed(const std::string &text) {
  TensorName name;
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first == std::string::npos || first == 0) return {};
  name.kind = text.substr(0, first);
  name.arg = text.substr(first + 1, second == std::string::npos ? second : second - first - 1);
  if (second == std::string::npos) return name;
  const char *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + second + 1, end, name.index);
  if (error != std::errc() || stop != end || name.index < 0) return {};
  return name;
}

user_op::GradDef gradientRuleOf(const std::shared_ptr<const manifest::PythonOp> &op, const user_op::Origin &origin) {
  user_op::OpGradRegistry registry(op->name(), origin.file.c_str(), origin.line);
  registry.SetBackwardOpConfGenFn(user_op::gradientRule([op](GradientRule &g) {
    if (!needsAny(g)) return;
    if (op->gradient().has_op())
      byOperator(*op, g);
    else
      byRecordedOps(*op, g);
  }));
  return registry.GetResult();
}

} // namespace opc::python
