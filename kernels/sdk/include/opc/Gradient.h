// What gradient rules receive: the forward op, and a place to define backward ops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/OpConf.h"
#include "opc/Tensor.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace opc::user_op {

/// Builds one op of a backward graph.
class UserOpConfWrapperBuilder {
public:
  explicit UserOpConfWrapperBuilder(std::string name) { conf_.name = std::move(name); }
  UserOpConfWrapperBuilder &OpTypeName(const std::string &type) { return conf_.type = type, *this; }
  UserOpConfWrapperBuilder &Op(const std::string &type) { return OpTypeName(type); }
  UserOpConfWrapperBuilder &InputBind(const std::string &arg, const std::string &tensor);
  UserOpConfWrapperBuilder &Input(const std::string &arg, const std::string &tensor) { return InputBind(arg, tensor); }
  UserOpConfWrapperBuilder &Output(const std::string &arg) { return Output(arg, 1); }
  UserOpConfWrapperBuilder &Output(const std::string &arg, int32_t num);
  template <class T> UserOpConfWrapperBuilder &Attr(const std::string &name, const T &value) {
    conf_.attrs[name] = AttrValue(value);
    return *this;
  }
  UserOpConfWrapperBuilder &ScopeSymbolId(int64_t) { return *this; }
  UserOpConfWrapper Build() const { return UserOpConfWrapper(conf_); }

private:
  OpConf conf_;
};
using BackwardOpBuilder = UserOpConfWrapperBuilder;
using BackwardOpBuilderFn = std::function<UserOpConfWrapper(BackwardOpBuilder &)>;

/// What the gradient generator knows about the forward op. Implemented by the compiler.
class GradientHost {
public:
  virtual ~GradientHost() = default;
  virtual bool needsGradient(const std::string &inputArg, int32_t index) const = 0;
  virtual bool hasGradient(const std::string &outputArg, int32_t index) const = 0;
  /// The tensor that holds the gradient of an output; zeros are made when no consumer contributed one.
  virtual std::string gradientOfOutput(const std::string &outputArg, int32_t index) = 0;
  virtual void bindGradientOfInput(const std::string &inputArg, int32_t index, const std::string &tensor) = 0;
  virtual const TensorDesc *findDesc(const std::string &arg, int32_t index) const = 0;
  /// Completes defaults, checks the op against its definition, and adds it to the backward graph.
  virtual Status emit(OpConf *conf) = 0;
};

/// The forward op of a gradient rule.
class UserOpWrapper {
public:
  UserOpWrapper(OpConf conf, GradientHost *host) : conf_(std::move(conf)), host_(host) {}
  const UserOpConfWrapper &user_op_conf() const { return conf_; }
  const OpConf &op_conf() const { return conf_.conf(); }
  const std::string &op_name() const { return conf_.op_name(); }
  const std::string &op_type_name() const { return conf_.op_type_name(); }
  const std::string &input(const std::string &arg, int32_t i) const { return conf_.input(arg, i); }
  const std::string &output(const std::string &arg, int32_t i) const { return conf_.output(arg, i); }
  int32_t input_size(const std::string &arg) const { return conf_.input_size(arg); }
  int32_t output_size(const std::string &arg) const { return conf_.output_size(arg); }
  template <class T> const T &attr(const std::string &name) const { return conf_.attr<T>(name); }
  std::string output_grad(const std::string &arg, int32_t i) const { return host_->gradientOfOutput(arg, i); }
  std::string GetGradTensorWithOpOutput(const std::string &arg, int32_t i) const { return output_grad(arg, i); }
  bool NeedGenGradTensor4OpInput(const std::string &arg, int32_t i) const { return host_->needsGradient(arg, i); }
  bool HasGradTensor4OpOutput(const std::string &arg, int32_t i) const { return host_->hasGradient(arg, i); }
  void BindGradTensorWithOpInput(const std::string &tensor, const std::string &arg, int32_t i) const {
    host_->bindGradientOfInput(arg, i, tensor);
  }
  /// Calls `grad` at once when the input needs a gradient: the callbacks capture their rule's stack frame.
  void InputGradBind(const OpArg &input, const std::function<const std::string &()> &grad) const {
    if (host_->needsGradient(input.name(), input.index()))
      host_->bindGradientOfInput(input.name(), input.index(), grad());
  }
  const TensorDesc &TensorDesc4ArgNameAndIndex(const std::string &arg, int32_t i) const {
    const TensorDesc *d = host_->findDesc(arg, i);
    if (!d) throw ContractError("no argument '" + arg + "' with index " + std::to_string(i));
    return *d;
  }
  const TensorDesc &arg_tensor_desc(const std::string &arg, int32_t i) const {
    return TensorDesc4ArgNameAndIndex(arg, i);
  }

private:
  UserOpConfWrapper conf_;
  GradientHost *host_;
};

/// Context of SetBackwardOpConfGenFn. Ops are defined first and built when GetOp asks for them.
class BackwardOpConfContext {
public:
  BackwardOpConfContext(OpConf forward, GradientHost *host) : forward_(std::move(forward), host), host_(host) {}
  UserOpWrapper &FwOp() { return forward_; }
  void DefineOp(const std::string &name, const BackwardOpBuilderFn &build);
  UserOpConfWrapper &GetOp(const std::string &name);

private:
  UserOpWrapper forward_;
  GradientHost *host_;
  std::map<std::string, BackwardOpBuilderFn> definitions_;
  std::map<std::string, UserOpConfWrapper> built_;
};

/// How the older SetGenBackwardOpConfFn hands over an op.
using AddOpFn = std::function<void(const UserOpConfWrapper &)>;

} // namespace opc::user_op
