// Attribute values of operators: one variant whose alternatives follow AttrValue's field numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/DataType.h"
#include "opc/Shape.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace opc {

/// The kinds of attribute, numbered as the fields of AttrValue (docs/graph-format.md).
enum AttrType : int32_t {
  kAtInvalid = 0,
  kAtInt32 = 1,
  kAtInt64 = 2,
  kAtBool = 3,
  kAtFloat = 4,
  kAtDouble = 5,
  kAtString = 6,
  kAtShape = 7,
  kAtDataType = 8,
  kAtListInt32 = 9,
  kAtListInt64 = 10,
  kAtListFloat = 11,
  kAtListDataType = 12,
  kAtListShape = 13,
  kAtListString = 14,
  kAtStride = 15,
  kAtListStride = 16,
  kAtDevice = 17,
  kAtComplexDouble = 18,
  kAtMemoryFormat = 19,
  kAtBytes = 20,
};

/// A value of a kind that no operator interprets yet (15 and up): carried through as the bytes of its AttrValue.
struct RawAttr {
  AttrType type = kAtInvalid;
  std::string bytes;
  bool operator==(const RawAttr &o) const { return type == o.type && bytes == o.bytes; }
};

/// An attribute's value. The index of the alternative is its AttrType; 0 is "no value", 15 is RawAttr.
using AttrVariant = std::variant<std::monostate, int32_t, int64_t, bool, float, double, std::string, Shape, DataType,
                                 std::vector<int32_t>, std::vector<int64_t>, std::vector<float>, std::vector<DataType>,
                                 std::vector<Shape>, std::vector<std::string>, RawAttr>;

class AttrValue {
public:
  AttrValue() = default;
  template <class T, class = std::enable_if_t<!std::is_same_v<std::decay_t<T>, AttrValue>>>
  AttrValue(T value) : value_(std::in_place_type<T>, std::move(value)) {}
  AttrValue(const char *text) : value_(std::string(text)) {}

  AttrType type() const {
    if (const auto *raw = std::get_if<RawAttr>(&value_)) return raw->type;
    return static_cast<AttrType>(value_.index());
  }
  bool empty() const { return value_.index() == 0; }
  template <class T> const T *get() const { return std::get_if<T>(&value_); }
  const AttrVariant &variant() const { return value_; }
  bool operator==(const AttrValue &o) const { return value_ == o.value_; }
  bool operator!=(const AttrValue &o) const { return !(value_ == o.value_); }
  /// Text for people: `false`, `1e-05`, `"NCHW"`, `[1, 2]`, `(2,3)`, `f32`.
  std::string toString() const;

private:
  AttrVariant value_;
};

/// The AttrType of the C++ type T; a compile error for types that attributes cannot have.
template <class T> struct GetAttrType;
#define OPC_ATTR_TYPE(cpp, type)                                                                                       \
  template <> struct GetAttrType<cpp> : std::integral_constant<AttrType, type> {}
OPC_ATTR_TYPE(int32_t, kAtInt32);
OPC_ATTR_TYPE(int64_t, kAtInt64);
OPC_ATTR_TYPE(bool, kAtBool);
OPC_ATTR_TYPE(float, kAtFloat);
OPC_ATTR_TYPE(double, kAtDouble);
OPC_ATTR_TYPE(std::string, kAtString);
OPC_ATTR_TYPE(Shape, kAtShape);
OPC_ATTR_TYPE(DataType, kAtDataType);
OPC_ATTR_TYPE(std::vector<int32_t>, kAtListInt32);
OPC_ATTR_TYPE(std::vector<int64_t>, kAtListInt64);
OPC_ATTR_TYPE(std::vector<float>, kAtListFloat);
OPC_ATTR_TYPE(std::vector<DataType>, kAtListDataType);
OPC_ATTR_TYPE(std::vector<Shape>, kAtListShape);
OPC_ATTR_TYPE(std::vector<std::string>, kAtListString);
#undef OPC_ATTR_TYPE

/// "kAtInt32", ...
const char *attrTypeName(AttrType type);

} // namespace opc
