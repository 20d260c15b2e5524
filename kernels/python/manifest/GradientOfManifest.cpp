// Gradient rules of operators that are written in Python: an operator of their own, or ops that were recorded.
// SPDX-License-Identifier: Apache-2.0
#include "ManifestRules.h"

#include "AttrWire.h"
#include "opc/GradientRule.h"

#include <cstdlib>
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

/// "KIND:ARG", "KIND:ARG:2".
struct Reference {
  std::string kind, arg;
  int32_t index = 0;
};
Reference parse(const std::string &text) {
  Reference r;
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  r.kind = text.substr(0, first);
  if (first == std::string::npos) return r;
  r.arg = text.substr(first + 1, second == std::string::npos ? second : second - first - 1);
  if (second != std::string::npos) r.index = static_cast<int>(std::strtol(text.c_str() + second + 1, nullptr, 10));
  return r;
}

/// The ops that a rule in Python has built once, built again.
void byRecordedOps(const manifest::PythonOp &op, GradientRule &g) {
  std::map<std::string, user_op::GradientOp> made;
  auto tensor = [&](const std::string &text) -> std::string {
    const Reference r = parse(text);
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
    const Reference to = parse("x:" + result.arg());
    if (g.op().input_size(to.arg) > to.index && g.needs(to.arg, to.index))
      g.bind(to.arg, to.index, tensor(result.tensor()));
  }
}

} // namespace

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

std::string wrongRules(const manifest::PythonOp &op, const user_op::OpDef &def) {
  auto input = [&](const std::string &name) { return def.findInput(name) ? "" : "there is no input '" + name + "'"; };
  if (op.infer_size() != 0 && op.infer_size() != op.output_size())
    return "it has " + std::to_string(op.infer_size()) + " shape rules for " + std::to_string(op.output_size()) +
           " outputs";
  for (const auto &rule : op.infer()) {
    for (const std::string *name : {&rule.like(), &rule.data_type_of()})
      if (!name->empty() && !def.findInput(*name)) return input(*name);
    for (const std::string &name : rule.broadcast())
      if (!def.findInput(name)) return input(name);
    if (rule.has_data_type() && !isTensorDataType(static_cast<DataType>(rule.data_type())))
      return "an output's element type is none of tensors";
  }
  for (const std::string &name : op.aux())
    if (!def.findInput(name)) return input(name);
  for (const auto &pair : op.inplace())
    if (!def.findInput(pair.input()) || !def.findOutput(pair.output()))
      return "the in-place pair " + pair.input() + " -> " + pair.output() + " names what is not there";
  for (const auto &b : op.gradient().input()) {
    const bool isInput = b.what() == "x", isOutput = b.what() == "y" || b.what() == "dy";
    if (!(isInput && def.findInput(b.of())) && !(isOutput && def.findOutput(b.of())))
      return "the gradient rule reads '" + b.what() + "' of '" + b.of() + "', which is not there";
  }
  for (const auto &b : op.gradient().output())
    if (!def.findInput(b.of())) return input(b.of());
  return "";
}

} // namespace opc::python
