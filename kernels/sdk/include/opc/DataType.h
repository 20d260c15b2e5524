// Element types and device kinds, numbered as in OneFlow's protobufs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/ElementTable.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace opc {

enum DataType : int32_t {
#define OPC_ELEMENT(enumerator, number, ...) enumerator = number,
  OPC_OTHER_DATA_TYPES(OPC_ELEMENT) OPC_ELEMENT_TYPES(OPC_ELEMENT)
#undef OPC_ELEMENT
};

/// What may be done with elements: kStorage is moved and converted, kNone is not a type of a tensor.
enum class ElementClass : uint8_t { kNone, kFloating, kInteger, kBool, kStorage };

constexpr ElementClass elementClass(DataType type) {
  switch (type) {
#define OPC_ELEMENT(enumerator, number, cpp, name, numpy, npy, onnx, safetensors, mlir, bits, kind)                    \
  case enumerator: return ElementClass::kind;
    OPC_ELEMENT_TYPES(OPC_ELEMENT)
#undef OPC_ELEMENT
  default: return ElementClass::kNone;
  }
}

/// A line of the table of types.
struct ElementType {
  DataType type = kInvalidDataType;
  const char *name = "";        // "f32": the command line, diagnostics
  const char *graphName = "";   // "kFloat": graph files
  const char *numpyName = "";   // "float32"; empty when numpy has no such type
  const char *npyCode = "";     // "f4"; in npy files a byte order stands in front; empty as above
  const char *safetensors = ""; // "F32"
  int onnx = 0;                 // the number in ONNX's TensorProto; 0 for none
  int bits = 0;                 // of one element, which takes whole bytes; 0 for types without a fixed layout
  ElementClass kind = ElementClass::kNone;
  bool isSigned = false; // of integers
  int mantissa = 0;      // of floats: stored bits
  /// The range of finite numbers; for 64-bit integers rounded to the nearest double.
  double lowest = 0, highest = 0;
  double smallestNormal = 0; // of floats
  double rtol = 0, atol = 0; // the default tolerance of comparisons; 0 for equality
};
/// The line of `type`; that of kInvalidDataType for unknown numbers.
const ElementType &elementType(DataType type);

/// "f32, f64, ...": the names of all types that tensors may have, for messages.
std::string elementTypeNames();

/// Bytes of one element in memory; 0 for types without a fixed layout (kOFRecord, kTensorBuffer, kInvalidDataType).
size_t GetSizeOfDataType(DataType type);
/// "f32", "i64", "bf16", ...: the names used on the command line and in diagnostics.
const char *dataTypeName(DataType type);
/// "kFloat", "kInt64", ...: the names used in graph files.
const char *DataType_Name(DataType type);
/// The inverse of dataTypeName; also accepts numpy's ("float32") and the graph files' names. kInvalidDataType if
/// unknown.
DataType parseDataType(const std::string &name);

constexpr bool IsFloatingDataType(DataType t) { return elementClass(t) == ElementClass::kFloating; }
constexpr bool IsIntegralDataType(DataType t) { return elementClass(t) == ElementClass::kInteger; }
/// True for the types that a tensor of a graph may have.
constexpr bool isTensorDataType(DataType t) { return elementClass(t) != ElementClass::kNone; }

enum class DeviceType : int32_t { kInvalidDevice = 0, kCPU = 1, kGPU = 2, kCUDA = 2 };

inline const char *DeviceTag(DeviceType d) {
  return d == DeviceType::kCPU ? "cpu" : d == DeviceType::kGPU ? "gpu" : "invalid_device";
}

/// GetDataType<T>::value is the DataType of the C++ type T.
template <class T> struct GetDataType : std::integral_constant<DataType, kInvalidDataType> {};
template <> struct GetDataType<char> : std::integral_constant<DataType, kChar> {};
#define OPC_ELEMENT(enumerator, number, cpp, ...)                                                                      \
  template <> struct GetDataType<cpp> : std::integral_constant<DataType, enumerator> {};
OPC_ELEMENT_TYPES(OPC_ELEMENT)
#undef OPC_ELEMENT

} // namespace opc
