// An op of a sample case in the words of a graph file.
// SPDX-License-Identifier: Apache-2.0
#include "OpSnippet.h"

#include "NumberText.h"
#include "OpReport.h"
#include "TextParts.h"
#include "TextTable.h"

#include "opc/ElementTypes.h"

#include <algorithm>
#include <map>
#include <type_traits>

namespace opc::cli {

using user_op::ArgDef;
using user_op::AttrDef;
using user_op::Case;
using user_op::OpDef;

namespace {

std::string quotedText(const std::string &text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return quoted + "\"";
}

std::string shapeText(const Shape &shape) {
  std::string text = "{";
  for (int64_t d : shape) text += " dim: " + std::to_string(d);
  return text + " }";
}

/// One number, word or shape.
template <class T> std::string elementText(const T &v) {
  if constexpr (std::is_same_v<T, bool>)
    return v ? "true" : "false";
  else if constexpr (std::is_same_v<T, std::string>)
    return quotedText(v);
  else if constexpr (std::is_same_v<T, Shape>)
    return shapeText(v);
  else if constexpr (std::is_same_v<T, DataType>)
    return DataType_Name(v);
  else if constexpr (std::is_integral_v<T>)
    return std::to_string(v);
  else if constexpr (std::is_floating_point_v<T>)
    return AttrValue(v).toString();
  else
    return "";
}

struct FieldText {
  template <class T> std::string operator()(const T &v) const {
    if constexpr (std::is_same_v<T, Shape>)
      return "at_shape " + shapeText(v);
    else
      return field(v) + elementText(v);
  }
  template <class T> std::string operator()(const std::vector<T> &v) const {
    const std::string separator = std::is_same_v<T, Shape> ? " val " : " val: ";
    std::string text = list(v) + " {";
    for (const T &element : v) text += separator + elementText(element);
    return text + " }";
  }
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const RawAttr &) const { return ""; }

private:
  static std::string field(int32_t) { return "at_int32: "; }
  static std::string field(int64_t) { return "at_int64: "; }
  static std::string field(bool) { return "at_bool: "; }
  static std::string field(float) { return "at_float: "; }
  static std::string field(double) { return "at_double: "; }
  static std::string field(const std::string &) { return "at_string: "; }
  static std::string field(DataType) { return "at_data_type: "; }
  static std::string list(const std::vector<int32_t> &) { return "at_list_int32"; }
  static std::string list(const std::vector<int64_t> &) { return "at_list_int64"; }
  static std::string list(const std::vector<float> &) { return "at_list_float"; }
  static std::string list(const std::vector<DataType> &) { return "at_list_data_type"; }
  static std::string list(const std::vector<Shape> &) { return "at_list_shape"; }
  static std::string list(const std::vector<std::string> &) { return "at_list_string"; }
};

/// Some value of a type, for an attribute that has no default.
AttrValue someValue(AttrType type) {
  switch (type) {
  case kAtInt32: return AttrValue(int32_t{0});
  case kAtInt64: return AttrValue(int64_t{0});
  case kAtBool: return AttrValue(false);
  case kAtFloat: return AttrValue(0.0f);
  case kAtDouble: return AttrValue(0.0);
  case kAtString: return AttrValue(std::string());
  case kAtShape: return AttrValue(Shape({1}));
  case kAtDataType: return AttrValue(kFloat);
  case kAtListInt32: return AttrValue(std::vector<int32_t>{0});
  case kAtListInt64: return AttrValue(std::vector<int64_t>{0});
  case kAtListFloat: return AttrValue(std::vector<float>{0});
  case kAtListDataType: return AttrValue(std::vector<DataType>{kFloat});
  case kAtListShape: return AttrValue(std::vector<Shape>{Shape({1})});
  case kAtListString: return AttrValue(std::vector<std::string>{""});
  default: return AttrValue();
  }
}

/// The element type of the inputs that a case leaves open: f32 where a kernel takes it.
DataType openType(const Registry &registry, const OpDef &op, const Case *sample) {
  std::vector<DataType> types;
  const bool isLimited = sample && !sample->types().empty();
  if (isLimited) types = sample->types();
  for (const user_op::KernelDef *k : registry.kernels(op.name)) {
    if (isLimited) break;
    const std::string name = kernelTarget(*k).dtype;
    for (DataType type : dataTypes<types::All>())
      if (name == dataTypeName(type)) types.push_back(type);
  }
  return types.empty() || std::count(types.begin(), types.end(), kFloat) ? kFloat : types[0];
}

/// "input { key: "a" value { s: "a/out" } }" of one argument.
std::string argumentLine(const char *side, const std::string &arg, const std::vector<std::string> &tensors) {
  std::string line = std::string(side) + " { key: \"" + arg + "\" value {";
  for (const std::string &t : tensors) line += " s: \"" + t + "\"";
  return line + " } }";
}

std::string attrLine(const std::string &name, const AttrValue &value) {
  return "attr { key: \"" + name + "\" value { " + attrValueText(value) + " } }";
}

/// The variable that a mutable input must be, as a line of a graph of its own.
std::string variableLine(const user_op::CaseInput &input, const std::string &name, DataType type) {
  const std::string start = IsFloatingDataType(type) ? "constant_conf" : "constant_int_conf";
  return "op { name: " + quotedText(name) + " variable_conf { out: \"out\" shape " + shapeText(input.shape) +
         " data_type: " + DataType_Name(type) + " initializer { " + start + " { value: 0 } } } }\n";
}

/// Variables that the op writes: it takes nothing else in their place.
std::string variableLines(const Registry &registry, const OpDef &op, const Case *sample) {
  std::string lines;
  const std::set<std::string> written = writtenInputs(op);
  std::map<std::string, size_t> seen;
  for (const user_op::CaseInput &i : sample ? sample->inputs() : std::vector<user_op::CaseInput>()) {
    const size_t n = seen[i.arg]++;
    const DataType type = i.type == kInvalidDataType ? openType(registry, op, sample) : i.type;
    if (written.count(i.arg)) lines += variableLine(i, i.arg + (n ? "_" + std::to_string(n) : ""), type);
  }
  return lines;
}

std::vector<std::string> inputLines(const Registry &registry, const OpDef &op, const Case *sample) {
  std::map<std::string, std::vector<std::string>> tensors, types;
  const auto add = [&](const std::string &arg, const std::string &type) {
    const size_t n = tensors[arg].size();
    tensors[arg].push_back(arg + (n ? "_" + std::to_string(n) : "") + "/out");
    types[arg].push_back(type);
  };
  if (sample) {
    for (const user_op::CaseInput &i : sample->inputs())
      add(i.arg, typeText(i.type == kInvalidDataType ? openType(registry, op, sample) : i.type, i.shape));
  } else {
    for (const ArgDef &a : op.inputs)
      for (int32_t k = 0; !a.optional && k < a.count; ++k) add(a.name, "");
  }
  std::vector<std::string> lines;
  for (const ArgDef &a : op.inputs)
    if (const auto found = tensors.find(a.name); found != tensors.end()) {
      const std::string note = joined(types[a.name], ", ");
      lines.push_back(argumentLine("input", a.name, found->second) + (note.empty() ? "" : "  # " + note));
    }
  return lines;
}

} // namespace

std::string attrValueText(const AttrValue &value) { return std::visit(FieldText(), value.variant()); }

std::string opSnippet(const Registry &registry, const OpDef &op) {
  const Case *sample = op.cases.empty() ? nullptr : &op.cases[0];
  const std::string name = "my_" + op.name;
  std::vector<std::string> lines = inputLines(registry, op, sample);
  for (const ArgDef &a : op.outputs) {
    int32_t count = a.optional ? 0 : std::max<int32_t>(a.count, 1);
    if (sample)
      for (const auto &[arg, asked] : sample->outputs())
        if (arg == a.name) count = static_cast<int32_t>(asked);
    std::vector<std::string> tensors;
    for (int32_t i = 0; i < count; ++i) tensors.push_back(name + "/" + a.name + "_" + std::to_string(i));
    if (count) lines.push_back(argumentLine("output", a.name, tensors));
  }
  std::vector<std::string> defaults;
  for (const AttrDef &a : op.attrs) {
    const AttrValue *given = nullptr;
    if (sample)
      for (const auto &[attr, value] : sample->attrs())
        if (attr == a.name) given = &value;
    if (given)
      lines.push_back(attrLine(a.name, *given));
    else if (a.defaultValue.empty())
      lines.push_back(attrLine(a.name, someValue(a.type)));
    else
      defaults.push_back("# " + attrLine(a.name, a.defaultValue));
  }
  lines.insert(lines.end(), defaults.begin(), defaults.end());
  std::string text = variableLines(registry, op, sample) + "op { name: \"" + name + "\" user_conf { op_type_name: \"" +
                     op.name + "\"\n";
  for (const std::string &line : lines) text += "  " + line + "\n";
  return text + "} }\n";
}

} // namespace opc::cli
