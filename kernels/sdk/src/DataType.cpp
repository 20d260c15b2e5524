// Names and sizes of element types and attribute kinds.
// SPDX-License-Identifier: Apache-2.0
#include "opc/DataType.h"
#include "opc/Attr.h"

#include <cmath>
#include <sstream>

namespace opc {
namespace {
struct TypeInfo {
  DataType type;
  size_t size;
  const char *name, *graphName, *numpyName;
};
constexpr TypeInfo kTypes[] = {
    {kInvalidDataType, 0, "invalid", "kInvalidDataType", ""},
    {kChar, 1, "char", "kChar", ""},
    {kFloat, 4, "f32", "kFloat", "float32"},
    {kDouble, 8, "f64", "kDouble", "float64"},
    {kInt8, 1, "i8", "kInt8", "int8"},
    {kInt32, 4, "i32", "kInt32", "int32"},
    {kInt64, 8, "i64", "kInt64", "int64"},
    {kUInt8, 1, "u8", "kUInt8", "uint8"},
    {kOFRecord, 0, "ofrecord", "kOFRecord", ""},
    {kFloat16, 2, "f16", "kFloat16", "float16"},
    {kTensorBuffer, 0, "tensor_buffer", "kTensorBuffer", ""},
    {kBFloat16, 2, "bf16", "kBFloat16", "bfloat16"},
    {kBool, 1, "bool", "kBool", "bool"},
    {kUInt16, 2, "u16", "kUInt16", "uint16"},
    {kUInt32, 4, "u32", "kUInt32", "uint32"},
    {kUInt64, 8, "u64", "kUInt64", "uint64"},
    {kUInt128, 16, "u128", "kUInt128", ""},
    {kInt16, 2, "i16", "kInt16", "int16"},
    {kInt128, 16, "i128", "kInt128", ""},
    {kComplex32, 4, "c32", "kComplex32", ""},
    {kComplex64, 8, "c64", "kComplex64", "complex64"},
    {kComplex128, 16, "c128", "kComplex128", "complex128"},
};
const TypeInfo &info(DataType t) { return t >= 0 && t < static_cast<int>(std::size(kTypes)) ? kTypes[t] : kTypes[0]; }

// Shortest decimal text that reads back as the same number; always shows that it is a floating number.
template <class T> std::string floatText(T v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[64];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, static_cast<double>(v));
    if (static_cast<T>(std::strtod(buffer, nullptr)) == v) break;
  }
  std::string s = buffer;
  for (char &c : s)
    if (c == ',') c = '.'; // a locale with decimal commas
  return s;
}

struct AttrPrinter {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int32_t v) const { return std::to_string(v); }
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(float v) const { return floatText(v); }
  std::string operator()(double v) const { return floatText(v); }
  std::string operator()(const std::string &v) const { return "\"" + v + "\""; }
  std::string operator()(const Shape &v) const { return v.ToString(); }
  std::string operator()(DataType v) const { return dataTypeName(v); }
  std::string operator()(const RawAttr &v) const { return std::string("<") + attrTypeName(v.type) + ">"; }
  template <class T> std::string operator()(const std::vector<T> &v) const {
    std::string s = "[";
    for (const auto &x : v) s += (s.size() > 1 ? ", " : "") + (*this)(x);
    return s + "]";
  }
};
} // namespace

size_t GetSizeOfDataType(DataType type) { return info(type).size; }
const char *dataTypeName(DataType type) { return info(type).name; }
const char *DataType_Name(DataType type) { return info(type).graphName; }

DataType parseDataType(const std::string &name) {
  for (const TypeInfo &t : kTypes)
    if (t.type != kInvalidDataType && (name == t.name || name == t.graphName || name == t.numpyName)) return t.type;
  return kInvalidDataType;
}

std::string AttrValue::toString() const { return std::visit(AttrPrinter(), value_); }

const char *attrTypeName(AttrType type) {
  static const char *const kNames[] = {
      "kAtInvalid",       "kAtInt32",        "kAtInt64",      "kAtBool",      "kAtFloat",      "kAtDouble",
      "kAtString",        "kAtShape",        "kAtDataType",   "kAtListInt32", "kAtListInt64",  "kAtListFloat",
      "kAtListDataType",  "kAtListShape",    "kAtListString", "kAtStride",    "kAtListStride", "kAtDevice",
      "kAtComplexDouble", "kAtMemoryFormat", "kAtBytes"};
  return type >= 0 && type < static_cast<int>(std::size(kNames)) ? kNames[type] : kNames[0];
}

} // namespace opc
