// A terse way to write gradient rules: name the backward ops, bind their results to the forward op's inputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <functional>
#include <string>
#include <utility>

namespace opc::user_op {

class GradientRule;

/// A backward op in the making. `out` adds it to the graph and gives its tensor's name.
class GradientOp {
public:
  GradientOp &in(const std::string &arg, const std::string &tensor);
  template <class T> GradientOp &attr(const std::string &name, T value) {
    builder_.Attr<T>(name, value);
    return *this;
  }
  /// An attribute whose value is already an AttrValue (copied from the forward op).
  GradientOp &attr(const std::string &name, const AttrValue &value);
  /// Copies attributes of the forward op, each under its own name.
  GradientOp &same(std::initializer_list<const char *> names);
  /// Asks for an optional or variadic output.
  GradientOp &output(const std::string &arg, int32_t count = 1);
  /// Adds the op and returns the tensor of its output `arg`.
  std::string out(const std::string &arg = "out", int32_t index = 0);

private:
  friend class GradientRule;
  GradientOp(GradientRule *rule, std::string name, const std::string &type);
  GradientRule *rule_;
  std::string name_;
  UserOpConfWrapperBuilder builder_;
  std::vector<std::pair<std::string, AttrValue>> copied_;
  UserOpConfWrapper built_;
  bool added_ = false;
};

/// What a rule sees: the forward op's tensors and attributes, the gradients that have arrived, and where to leave its
/// own. Errors (unknown argument, an op that does not fit its definition) are ContractErrors, which the generator
/// reports with the forward op's name and place.
class GradientRule {
public:
  explicit GradientRule(BackwardOpConfContext *ctx) : ctx_(ctx) {}
  const UserOpWrapper &op() const { return ctx_->FwOp(); }
  /// True when the input lies on a path to something that wants a gradient. One that is in no definition is an error
  /// when the rule has returned.
  bool needs(const std::string &arg, int32_t index = 0) const;
  /// True when a consumer contributed a gradient to the output. Without one, dy() makes zeros.
  bool hasDy(const std::string &arg, int32_t index = 0) const { return op().HasGradTensor4OpOutput(arg, index); }
  /// The forward op's input and output tensors, and the gradient of an output.
  const std::string &x(const std::string &arg, int32_t index = 0) const { return op().input(arg, index); }
  const std::string &y(const std::string &arg, int32_t index = 0) const { return op().output(arg, index); }
  std::string dy(const std::string &arg, int32_t index = 0) const { return op().output_grad(arg, index); }
  bool hasInput(const std::string &arg) const { return op().input_size(arg) > 0; }
  bool hasOutput(const std::string &arg) const { return op().output_size(arg) > 0; }
  const TensorDesc &desc(const std::string &arg, int32_t index = 0) const {
    return op().TensorDesc4ArgNameAndIndex(arg, index);
  }
  const Shape &shape(const std::string &arg, int32_t index = 0) const { return desc(arg, index).shape(); }
  template <class T> const T &attr(const std::string &name) const { return op().attr<T>(name); }
  const AttrValue &attrValue(const std::string &name) const;

  /// Begins a backward op of the given type, called "<forward op>_grad_<suffix>" (suffix: the input it serves, say).
  GradientOp add(const std::string &type, const std::string &suffix);
  /// `tensor` is the gradient of the input. Ignored when the input needs none.
  void bind(const std::string &arg, const std::string &tensor) { bind(arg, 0, tensor); }
  void bind(const std::string &arg, int32_t index, const std::string &tensor);

  // Small ops that many rules end with. Each returns the tensor's name.
  std::string multiply(const std::string &a, const std::string &b, const std::string &suffix);
  std::string scale(const std::string &a, double factor, const std::string &suffix);
  /// Sums `a` down to the shape of `like` (broadcasting's inverse); `a` itself when the shapes already agree.
  std::string reduceLike(const std::string &a, const Shape &have, const std::string &like, const Shape &want,
                         const std::string &suffix);

private:
  friend class GradientOp;
  BackwardOpConfContext *ctx_;
};

/// REGISTER_USER_OP_GRAD("square").SetBackwardOpConfGenFn(gradientRule([](GradientRule &g) { ... }));
std::function<void(BackwardOpConfContext *)> gradientRule(std::function<void(GradientRule &)> rule);

} // namespace opc::user_op
