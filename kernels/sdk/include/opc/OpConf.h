// OpConf, the SDK's form of a UserOpConf, and the wrappers that OneFlow's rules receive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Attr.h"
#include "opc/Maybe.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace opc::user_op {

/// One argument of an op instance and the tensors bound to it, by name ("fc1/out_0").
struct ArgBinding {
  std::string name;
  std::vector<std::string> tensors;
};

/// An operator instance: its name, its type, its arguments in definition order and its attributes.
struct OpConf {
  std::string name;
  std::string type;
  std::vector<ArgBinding> inputs, outputs;
  std::map<std::string, AttrValue> attrs;

  const ArgBinding *findInput(const std::string &arg) const;
  const ArgBinding *findOutput(const std::string &arg) const;
};

struct OpDef;

/// Read access to an OpConf, under the names that operator sources use.
class UserOpConfWrapper {
public:
  UserOpConfWrapper() = default;
  explicit UserOpConfWrapper(OpConf conf) : conf_(std::move(conf)) {}
  const OpConf &conf() const { return conf_; }
  const OpConf &op_conf() const { return conf_; }
  const OpConf &user_op_conf() const { return conf_; }
  const std::string &op_name() const { return conf_.name; }
  const std::string &op_type_name() const { return conf_.type; }
  bool has_input(const std::string &arg, int32_t index) const { return index < input_size(arg); }
  bool has_output(const std::string &arg, int32_t index) const { return index < output_size(arg); }
  int32_t input_size(const std::string &arg) const;
  int32_t output_size(const std::string &arg) const;
  /// The name of the tensor bound to an argument; throws ContractError when there is none.
  const std::string &input(const std::string &arg, int32_t index) const;
  const std::string &output(const std::string &arg, int32_t index) const;
  /// The attribute's value; throws ContractError when it is absent or of another type.
  template <class T> const T &attr(const std::string &name) const { return attrAs<T>(findAttr(name), name); }
  bool has_attr(const std::string &name) const { return conf_.attrs.count(name) != 0; }

  template <class T> static const T &attrAs(const AttrValue *value, const std::string &name) {
    if (!value) throw ContractError("no attribute '" + name + "'");
    const T *typed = value->get<T>();
    if (!typed)
      throw ContractError("attribute '" + name + "' is " + attrTypeName(value->type()) + ", read as " +
                          attrTypeName(GetAttrType<T>::value));
    return *typed;
  }

private:
  const AttrValue *findAttr(const std::string &name) const {
    auto it = conf_.attrs.find(name);
    return it == conf_.attrs.end() ? nullptr : &it->second;
  }
  OpConf conf_;
};

/// Read access to an OpDef, for SetCheckAttrFn.
class UserOpDefWrapper {
public:
  explicit UserOpDefWrapper(const OpDef &def) : def_(&def) {}
  const OpDef &def() const { return *def_; }
  const std::string &name() const;
  bool IsInputArgName(const std::string &name) const;
  bool IsOutputArgName(const std::string &name) const;
  bool IsAttrName(const std::string &name) const;
  bool IsArgOptional(const std::string &name) const;
  AttrType GetAttrType(const std::string &name) const;

private:
  const OpDef *def_;
};

/// An argument and an index into its tensors.
class OpArg {
public:
  OpArg(std::string &&name, int32_t index) : name_(std::move(name)), index_(index) {}
  OpArg(const std::string &name, int32_t index) : name_(name), index_(index) {}
  OpArg(const char *name, int32_t index) : name_(name), index_(index) {}
  const std::string &name() const { return name_; }
  int32_t index() const { return index_; }

private:
  std::string name_;
  int32_t index_;
};

using ArgList = std::vector<std::pair<std::string, int32_t>>;

} // namespace opc::user_op
