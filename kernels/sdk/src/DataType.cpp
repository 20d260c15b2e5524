// Names and sizes of element types and attribute kinds.
// SPDX-License-Identifier: Apache-2.0
#include "opc/DataType.h"
#include "opc/Attr.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <sstream>

namespace opc {
namespace {
template <class T> constexpr ElementType withLimits(ElementType t) {
  if constexpr (isNarrowInteger<T>) {
    t.isSigned = T::kLowest < 0;
    t.lowest = T::kLowest;
    t.highest = T::kHighest;
  } else if constexpr (std::is_integral_v<T>) {
    t.isSigned = std::is_signed_v<T>;
    t.lowest = static_cast<double>(std::numeric_limits<T>::lowest());
    t.highest = static_cast<double>(std::numeric_limits<T>::max());
  } else {
    t.mantissa = FloatLimits<T>::mantissa;
    t.lowest = -FloatLimits<T>::largest;
    t.highest = FloatLimits<T>::largest;
    t.smallestNormal = FloatLimits<T>::smallestNormal;
    t.rtol = FloatLimits<T>::rtol;
    t.atol = FloatLimits<T>::atol;
  }
  return t;
}

#define OPC_OTHER(enumerator, number, name, numpy, bytes)                                                              \
  ElementType{enumerator, name, #enumerator, numpy, "", "", 0, 8 * bytes},
#define OPC_ELEMENT(enumerator, number, cpp, name, numpy, npy, onnx, safetensors, mlir, bits, kind)                    \
  withLimits<cpp>({enumerator, name, #enumerator, numpy, npy, safetensors, onnx, bits, ElementClass::kind}),
constexpr ElementType kTypes[] = {OPC_OTHER_DATA_TYPES(OPC_OTHER) OPC_ELEMENT_TYPES(OPC_ELEMENT)};
#undef OPC_OTHER
#undef OPC_ELEMENT

// Where each number stands in the table.
constexpr size_t placeOf(DataType type) {
  for (size_t i = 0; i < std::size(kTypes); ++i)
    if (kTypes[i].type == type) return i;
  return 0;
}

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

const ElementType &elementType(DataType type) {
  switch (type) {
#define OPC_ELEMENT(enumerator, number, ...)                                                                           \
  case enumerator: return kTypes[placeOf(enumerator)];
    OPC_OTHER_DATA_TYPES(OPC_ELEMENT) OPC_ELEMENT_TYPES(OPC_ELEMENT)
#undef OPC_ELEMENT
  }
  return kTypes[placeOf(kInvalidDataType)];
}

std::string elementTypeNames() {
  std::string names;
  for (const ElementType &t : kTypes)
    if (t.kind != ElementClass::kNone) names += (names.empty() ? "" : ", ") + std::string(t.name);
  return names;
}

size_t GetSizeOfDataType(DataType type) { return static_cast<size_t>((elementType(type).bits + 7) / 8); }
const char *dataTypeName(DataType type) { return elementType(type).name; }
const char *DataType_Name(DataType type) { return elementType(type).graphName; }

DataType parseDataType(const std::string &name) {
  for (const ElementType &t : kTypes)
    if (t.type != kInvalidDataType && (name == t.name || name == t.graphName || (*t.numpyName && name == t.numpyName)))
      return t.type;
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
