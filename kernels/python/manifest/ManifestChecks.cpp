// What is wrong with the rules of a manifest's operator, found when it is read.
// SPDX-License-Identifier: Apache-2.0
#include "ManifestRules.h"

#include <limits>
#include <optional>
#include <set>

namespace opc::python {

using user_op::OpDef;

namespace {

std::string noInput(const std::string &name) { return "there is no input '" + name + "'"; }

/// Sizes whose product is a count of elements.
template <class Dims> std::string wrongSizes(const Dims &dims) {
  int64_t count = 1;
  for (const int64_t d : dims) {
    if (d < 0) return "a shape has a size of " + std::to_string(d);
    if (__builtin_mul_overflow(count, d, &count) || count > std::numeric_limits<int64_t>::max() / 16)
      return "a shape has too many elements";
  }
  return "";
}

std::string wrongSpec(const manifest::Spec &spec) {
  if (!isTensorDataType(static_cast<DataType>(spec.data_type()))) return "a recorded element type is none of tensors";
  return wrongSizes(spec.dim());
}

std::string wrongInference(const manifest::PythonOp &op, const OpDef &def) {
  if (op.infer_size() != 0 && op.infer_size() != op.output_size())
    return "it has " + std::to_string(op.infer_size()) + " shape rules for " + std::to_string(op.output_size()) +
           " outputs";
  for (const auto &rule : op.infer()) {
    for (const std::string *name : {&rule.like(), &rule.data_type_of()})
      if (!name->empty() && !def.findInput(*name)) return noInput(*name);
    for (const std::string &name : rule.broadcast())
      if (!def.findInput(name)) return noInput(name);
    if (rule.has_data_type() && !isTensorDataType(static_cast<DataType>(rule.data_type())))
      return "an output's element type is none of tensors";
  }
  for (const auto &record : op.recorded())
    for (const auto *list : {&record.input(), &record.output()})
      for (const auto &spec : *list)
        if (std::string why = wrongSpec(spec); !why.empty()) return why;
  return "";
}

std::string wrongCases(const manifest::PythonOp &op, const OpDef &def) {
  for (const auto &c : op.case_())
    for (const auto &in : c.input()) {
      if (!def.findInput(in.arg())) return noInput(in.arg());
      if (in.index() < 0) return "a case has an input of index " + std::to_string(in.index());
      if (!isTensorDataType(static_cast<DataType>(in.data_type()))) return "a case has an element type of no tensor";
      if (std::string why = wrongSizes(in.dim()); !why.empty()) return why;
    }
  return "";
}

std::string wrongBindings(const manifest::PythonOp &op, const OpDef &def) {
  for (const auto &b : op.gradient().input()) {
    const bool isInput = b.what() == "x", isOutput = b.what() == "y" || b.what() == "dy";
    if (!(isInput && def.findInput(b.of())) && !(isOutput && def.findOutput(b.of())))
      return "the gradient rule reads '" + b.what() + "' of '" + b.of() + "', which is not there";
  }
  for (const auto &b : op.gradient().output())
    if (!def.findInput(b.of())) return noInput(b.of());
  return "";
}

/// The nodes of a recorded rule: each reads what the op has and what stands before it, so that no node waits for
/// itself.
std::string wrongNodes(const manifest::PythonOp &op, const OpDef &def) {
  std::set<std::string> before;
  const auto wrongTensor = [&](const std::string &text) -> std::string {
    const std::optional<TensorName> r = tensorNamed(text);
    const bool isInput = r && r->kind == "x", isOutput = r && (r->kind == "y" || r->kind == "dy");
    if (r && ((isInput && def.findInput(r->arg)) || (isOutput && def.findOutput(r->arg)) ||
              (!isInput && !isOutput && before.count(r->kind))))
      return "";
    return "the gradient rule reads '" + text + "', which is neither of the op nor made before it is read";
  };
  for (const auto &node : op.gradient().node()) {
    for (const auto &port : node.input())
      for (const std::string &t : port.tensor())
        if (std::string why = wrongTensor(t); !why.empty()) return why;
    if (!before.insert(node.name()).second) return "the gradient rule's op '" + node.name() + "' is named twice";
  }
  for (const auto &result : op.gradient().result()) {
    const std::optional<TensorName> to = tensorNamed("x:" + result.arg());
    if (!to || !def.findInput(to->arg)) return noInput(result.arg());
    if (std::string why = wrongTensor(result.tensor()); !why.empty()) return why;
  }
  return "";
}

} // namespace

std::string wrongRules(const manifest::PythonOp &op, const OpDef &def) {
  for (const auto check : {wrongInference, wrongCases, wrongBindings, wrongNodes})
    if (std::string why = check(op, def); !why.empty()) return why;
  for (const auto *names : {&op.aux(), &op.no_grad()})
    for (const std::string &name : *names)
      if (!def.findInput(name)) return noInput(name);
  for (const auto &pair : op.inplace())
    if (!def.findInput(pair.input()) || !def.findOutput(pair.output()))
      return "the in-place pair " + pair.input() + " -> " + pair.output() + " names what is not there";
  if (!(op.timeout_s() >= 0)) return "its timeout is not a number of seconds";
  return "";
}

} // namespace opc::python
