// GradientRule: backward ops by name.
// SPDX-License-Identifier: Apache-2.0
#include "opc/GradientRule.h"

#include <algorithm>

namespace opc::user_op {

GradientOp::GradientOp(GradientRule *rule, std::string name, const std::string &type)
    : rule_(rule), name_(std::move(name)), builder_(name_) {
  builder_.OpTypeName(type);
}

GradientOp &GradientOp::in(const std::string &arg, const std::string &tensor) {
  builder_.InputBind(arg, tensor);
  return *this;
}

GradientOp &GradientOp::attr(const std::string &name, const AttrValue &value) {
  copied_.emplace_back(name, value);
  return *this;
}

GradientOp &GradientOp::same(std::initializer_list<const char *> names) {
  for (const char *name : names) attr(name, rule_->attrValue(name));
  return *this;
}

GradientOp &GradientOp::output(const std::string &arg, int32_t count) {
  builder_.Output(arg, count);
  return *this;
}

std::string GradientOp::out(const std::string &arg, int32_t index) {
  if (!added_) {
    // Outputs that were not asked for by name get their default; completion adds the required ones.
    OpConf conf = builder_.Build().conf();
    for (auto &[name, value] : copied_) conf.attrs[name] = value;
    rule_->ctx_->DefineOp(name_, [&](BackwardOpBuilder &) { return UserOpConfWrapper(conf); });
    built_ = rule_->ctx_->GetOp(name_);
    added_ = true;
  }
  const std::vector<ArgBinding> &outputs = built_.conf().outputs;
  const auto found = std::find_if(outputs.begin(), outputs.end(), [&](const ArgBinding &b) { return b.name == arg; });
  if (found == outputs.end() || index < 0 || index >= static_cast<int32_t>(found->tensors.size())) {
    std::string has;
    for (const ArgBinding &b : outputs) {
      has += (has.empty() ? "" : ", ") + b.name;
      if (b.tensors.size() > 1) has += " (" + std::to_string(b.tensors.size()) + " tensors)";
    }
    throw ContractError("its op " + built_.op_type_name() + " has no output '" + arg + "'" +
                        (index == 0 ? "" : " with index " + std::to_string(index)) +
                        (has.empty() ? ", and no other either" : "; its outputs: " + has));
  }
  return found->tensors[static_cast<size_t>(index)];
}

bool GradientRule::needs(const std::string &arg, int32_t index) const {
  // The host is asked of absent ones, too: it tells those that are optional from those that there are not.
  return op().NeedGenGradTensor4OpInput(arg, index) && index < op().input_size(arg);
}

const AttrValue &GradientRule::attrValue(const std::string &name) const {
  const auto &attrs = op().op_conf().attrs;
  auto it = attrs.find(name);
  if (it == attrs.end()) throw ContractError("no attribute '" + name + "'");
  return it->second;
}

GradientOp GradientRule::add(const std::string &type, const std::string &suffix) {
  return GradientOp(this, op().op_name() + "_grad_" + suffix, type);
}

void GradientRule::bind(const std::string &arg, int32_t index, const std::string &tensor) {
  if (needs(arg, index)) op().BindGradTensorWithOpInput(tensor, arg, index);
}

std::string GradientRule::multiply(const std::string &a, const std::string &b, const std::string &suffix) {
  return add("multiply", suffix).in("x", a).in("y", b).out();
}

std::string GradientRule::scale(const std::string &a, double factor, const std::string &suffix) {
  return add("scalar_mul", suffix).in("in", a).attr("has_float_operand", true).attr("float_operand", factor).out();
}

std::string GradientRule::reduceLike(const std::string &a, const Shape &have, const std::string &like,
                                     const Shape &want, const std::string &suffix) {
  if (have == want) return a;
  std::vector<int32_t> axes;
  const int64_t lead = have.NumAxes() - want.NumAxes();
  for (int64_t i = 0; i < have.NumAxes(); ++i)
    if (i < lead || (want.At(i - lead) == 1 && have.At(i) != 1)) axes.push_back(static_cast<int32_t>(i));
  return add("reduce_sum_like", suffix).in("x", a).in("like", like).attr("axis", axes).out("y");
}

std::function<void(BackwardOpConfContext *)> gradientRule(std::function<void(GradientRule &)> rule) {
  return [rule = std::move(rule)](BackwardOpConfContext *ctx) {
    GradientRule g(ctx);
    rule(g);
  };
}

} // namespace opc::user_op
