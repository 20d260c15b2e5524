// Attribute values between Python and the SDK. Nothing is rounded or cut: what does not fit is an error.
// SPDX-License-Identifier: Apache-2.0
#include "AttrConversion.h"

#include "TextParts.h"

#include <cmath>
#include <limits>
#include <optional>

namespace py = pybind11;

namespace opc::python {
namespace {

/// A value in the C++ type, or nothing when it does not fit.
template <class T> std::optional<T> numberFrom(py::handle value) {
  if constexpr (std::is_same_v<T, bool>) {
    if (PyBool_Check(value.ptr())) return value.ptr() == Py_True;
    if (std::string_view(Py_TYPE(value.ptr())->tp_name) == "numpy.bool_") return PyObject_IsTrue(value.ptr()) == 1;
    return std::nullopt;
  } else if constexpr (std::is_integral_v<T>) {
    if (PyBool_Check(value.ptr()) || !PyIndex_Check(value.ptr())) return std::nullopt;
    const auto whole = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
    int overflow = 0;
    const long long n = whole ? PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow) : 0;
    PyErr_Clear();
    if (!whole || overflow || n < std::numeric_limits<T>::min() || n > std::numeric_limits<T>::max())
      return std::nullopt;
    return static_cast<T>(n);
  } else {
    if (PyBool_Check(value.ptr()) || PyUnicode_Check(value.ptr())) return std::nullopt;
    const double d = PyFloat_AsDouble(value.ptr());
    if (PyErr_Occurred()) {
      PyErr_Clear();
      return std::nullopt;
    }
    if (std::isfinite(d) && !std::isfinite(static_cast<T>(d))) return std::nullopt;
    return static_cast<T>(d);
  }
}

/// Halves of characters, as Python has them of names that are no UTF-8, are no text.
std::optional<std::string> textFrom(py::handle value) {
  if (!PyUnicode_Check(value.ptr())) return std::nullopt;
  Py_ssize_t size = 0;
  const char *text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  PyErr_Clear();
  return text ? std::optional(std::string(text, static_cast<size_t>(size))) : std::nullopt;
}

template <class T> std::optional<T> shapeFrom(py::handle value) {
  if (PyUnicode_Check(value.ptr()) || !PySequence_Check(value.ptr())) return std::nullopt;
  DimVector dims;
  for (py::handle d : py::reinterpret_borrow<py::sequence>(value)) {
    const auto n = numberFrom<int64_t>(d);
    if (!n) return std::nullopt;
    dims.push_back(*n);
  }
  return Shape(dims);
}

/// As every other part of the package reads types.
std::optional<DataType> typeFrom(py::handle value) {
  if (const DataType type = dataTypeFromPython(value); type != kInvalidDataType) return type;
  try {
    return parseDataType(py::module_::import("opc._dtypes").attr("dtype")(value).cast<std::string>());
  } catch (py::error_already_set &) { // it is none
    return std::nullopt;
  }
}

/// A list whose elements all fit.
template <class T, class One> std::optional<std::vector<T>> listFrom(py::handle value, One one) {
  if (PyUnicode_Check(value.ptr()) || !PySequence_Check(value.ptr())) return std::nullopt;
  std::vector<T> list;
  for (py::handle v : py::reinterpret_borrow<py::sequence>(value)) {
    std::optional<T> element = one(v);
    if (!element) return std::nullopt;
    list.push_back(std::move(*element));
  }
  return list;
}

template <class T> AttrValue held(std::optional<T> value) { return value ? AttrValue(std::move(*value)) : AttrValue(); }

AttrValue convert(AttrType type, py::handle v) {
  switch (type) {
  case kAtInt32: return held(numberFrom<int32_t>(v));
  case kAtInt64: return held(numberFrom<int64_t>(v));
  case kAtBool: return held(numberFrom<bool>(v));
  case kAtFloat: return held(numberFrom<float>(v));
  case kAtDouble: return held(numberFrom<double>(v));
  case kAtString: return held(textFrom(v));
  case kAtShape: return held(shapeFrom<Shape>(v));
  case kAtDataType: return held(typeFrom(v));
  case kAtListInt32: return held(listFrom<int32_t>(v, numberFrom<int32_t>));
  case kAtListInt64: return held(listFrom<int64_t>(v, numberFrom<int64_t>));
  case kAtListFloat: return held(listFrom<float>(v, numberFrom<float>));
  case kAtListDataType: return held(listFrom<DataType>(v, typeFrom));
  case kAtListShape: return held(listFrom<Shape>(v, shapeFrom<Shape>));
  case kAtListString: return held(listFrom<std::string>(v, textFrom));
  default: return {};
  }
}

const char *pythonName(AttrType type) {
  switch (type) {
  case kAtInt32: return "an int of 32 bits";
  case kAtInt64: return "an int of 64 bits";
  case kAtBool: return "a bool";
  case kAtFloat: return "a number that f32 holds";
  case kAtDouble: return "a number";
  case kAtString: return "a str of whole characters";
  case kAtShape: return "a sequence of ints";
  case kAtDataType: return "a dtype";
  case kAtListInt32: return "a sequence of ints of 32 bits";
  case kAtListInt64: return "a sequence of ints";
  case kAtListFloat: return "a sequence of numbers that f32 holds";
  case kAtListDataType: return "a sequence of dtypes";
  case kAtListShape: return "a sequence of shapes";
  case kAtListString: return "a sequence of str of whole characters";
  default: return "nothing that Python can give";
  }
}

} // namespace

Result<AttrValue> attrFromPython(const user_op::AttrDef &attr, py::handle value) {
  AttrValue converted = convert(attr.type, value);
  if (!converted.empty()) return converted;
  return Status(StatusCode::kInvalidGraph, "OPC0205",
                concat("attribute '", attr.name, "' is ", std::string(py::repr(value)), ", expected ",
                       pythonName(attr.type), " (", attrTypeName(attr.type), ")"));
}

py::object attrToPython(const AttrValue &value) {
  auto one = [](auto &&self, const auto &v) -> py::object {
    using T = std::decay_t<decltype(v)>;
    if constexpr (std::is_same_v<T, std::monostate>)
      return py::none();
    else if constexpr (std::is_same_v<T, RawAttr>)
      return py::bytes(v.bytes);
    else if constexpr (std::is_same_v<T, Shape>)
      return shapeToPython(v);
    else if constexpr (std::is_same_v<T, DataType>)
      return py::str(dataTypeName(v));
    else if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, std::string>) {
      py::list list;
      for (const auto &element : v) list.append(self(self, element));
      return py::tuple(list);
    } else if constexpr (std::is_same_v<T, float>) {
      return py::float_(std::stod(AttrValue(v).toString())); // the shortest decimal: 0.1 and not 0.10000000149
    } else
      return py::cast(v);
  };
  return std::visit([&](const auto &v) { return one(one, v); }, value.variant());
}

Shape shapeFromPython(py::handle shape) {
  const std::optional<Shape> converted = shapeFrom<Shape>(shape);
  if (!converted) throw py::type_error("a shape is a sequence of ints, and this is " + std::string(py::repr(shape)));
  return *converted;
}

py::tuple shapeToPython(const Shape &shape) {
  py::tuple dims(shape.NumAxes());
  for (int64_t i = 0; i < shape.NumAxes(); ++i) dims[static_cast<size_t>(i)] = py::int_(shape.At(i));
  return dims;
}

DataType dataTypeFromPython(py::handle type) {
  if (const auto name = textFrom(type)) return parseDataType(*name);
  for (const char *attribute : {"name", "__name__"})
    if (py::hasattr(type, attribute))
      if (const auto name = textFrom(type.attr(attribute))) return parseDataType(*name);
  return kInvalidDataType;
}

} // namespace opc::python
