// Arrays in and out. What is not an array of the wanted type is refused: nothing is converted silently.
// SPDX-License-Identifier: Apache-2.0
#include "ArrayConversion.h"

#include "AttrConversion.h"
#include "TextParts.h"
#include "opc/PackedElements.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <sys/uio.h>
#include <unistd.h>

namespace py = pybind11;

namespace opc::python {
namespace {

std::vector<py::ssize_t> dimsOf(const Shape &shape) { return {shape.dim_vec().begin(), shape.dim_vec().end()}; }

/// numpy's letter for the kind of an element type that numpy has; 0 for one that it has not.
char kindOf(const ElementType &element) {
  switch (element.kind) {
  case ElementClass::kFloating: return element.type == kBFloat16 ? 0 : 'f';
  case ElementClass::kInteger: return element.isSigned ? 'i' : 'u';
  case ElementClass::kBool: return 'b';
  default: return 0;
  }
}

/// Integers under a byte, which are numbers in i8.
bool isNarrowSigned(const ElementType &element) { return element.kind == ElementClass::kStorage && element.isSigned; }

bool isOfType(const py::array &array, DataType type) {
  const auto *found = py::detail::array_descriptor_proxy(py::detail::array_proxy(array.ptr())->descr);
  if (found->byteorder == '>') return false;
  const ElementType &element = elementType(type);
  if (const char kind = kindOf(element)) return found->kind == kind && array.itemsize() * 8 == element.bits;
  // Bits, or a type of ml_dtypes.
  return array.itemsize() == static_cast<py::ssize_t>(GetSizeOfDataType(type)) &&
         (found->kind == (isNarrowSigned(element) ? 'i' : 'u') ||
          dataTypeFromPython(array.dtype().attr("type")) == type);
}

/// Whether each byte is an element, where that has less than a byte.
bool isOfRange(py::array array, const ElementType &element) {
  if (!isPackedInFiles(element.type) || array.size() == 0) return true;
  const bool isFloat = element.mantissa > 0; // its bits
  const py::array numbers = isNarrowSigned(element) ? array.view("int8") : array.view("uint8");
  return numbers.attr("min")().cast<int>() >= (isFloat ? 0 : static_cast<int>(element.lowest)) &&
         numbers.attr("max")().cast<int>() <= (isFloat ? 15 : static_cast<int>(element.highest));
}

bool isOfShape(const py::array &array, const Shape &shape) {
  if (array.ndim() != shape.NumAxes()) return false;
  for (py::ssize_t i = 0; i < array.ndim(); ++i)
    if (array.shape(i) != shape.At(i)) return false;
  return true;
}

std::string shapeText(const py::array &array) {
  std::string text;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) text += (i ? "," : "") + std::to_string(array.shape(i));
  return "[" + text + "]";
}

} // namespace

py::dtype numpyType(DataType type) {
  const ElementType &element = elementType(type);
  if (kindOf(element)) return py::dtype(element.numpyName);
  return py::dtype(isNarrowSigned(element) ? "int8" : GetSizeOfDataType(type) == 1 ? "uint8" : "uint16");
}

/// The kernel of the system reads one byte: where that is a fault it says so, with no signal. Where it may not be asked
/// nothing is known.
Status checkThere(const void *lastByte, const std::string &what) {
  char byte = 0;
  const iovec to{&byte, 1}, from{const_cast<void *>(lastByte), 1};
  if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1 || errno != EFAULT) return Status::ok();
  return Status(StatusCode::kExecution, "OPC0702",
                what + " lies in a file that has become shorter since it was mapped: its last elements are gone")
      .withHelp("replace files that are in use by renaming, or feed a copy: np.array(value)");
}

Status checkThere(const py::array &array, const std::string &what) {
  if (array.owndata() || array.size() == 0) return Status::ok();
  const auto *last = static_cast<const char *>(array.data()) + array.itemsize() - 1;
  for (py::ssize_t i = 0; i < array.ndim(); ++i)
    if (array.strides(i) > 0) last += (array.shape(i) - 1) * array.strides(i);
  return checkThere(last, what);
}

Status checkArray(const py::array &array, const user_op::TensorDesc &expected, const std::string &what) {
  OPC_RETURN_IF_ERROR(checkThere(array, what));
  if (!isOfType(array, expected.data_type()))
    return Status(StatusCode::kUsage, "OPC0703",
                  concat(what, " is ", std::string(py::str(array.dtype())), ", expected ",
                         std::string(py::str(numpyType(expected.data_type()))), " (",
                         dataTypeName(expected.data_type()), ")"))
        .withHelp(array.dtype().kind() == 'V'
                      ? concat("bytes of a file have no type in numpy: .view('",
                               std::string(py::str(numpyType(expected.data_type()))), "')")
                      : std::string("convert it first, with .astype(...): nothing is converted silently"));
  if (const ElementType &element = elementType(expected.data_type()); !isOfRange(array, element))
    return Status(StatusCode::kUsage, "OPC0703",
                  concat(what, " has elements that are no ", element.name, ", which has less than a byte for each"))
        .withHelp(concat("give ", element.isSigned || element.mantissa == 0 ? "numbers of its range" : "its 4 bits",
                         ": nothing is converted silently"));
  if (!isOfShape(array, expected.shape()))
    return Status(StatusCode::kUsage, "OPC0704",
                  concat(what, " has shape ", shapeText(array), ", expected ", expected.toString()));
  return Status::ok();
}

bool isPlainArray(py::handle value) { return Py_TYPE(value.ptr()) == py::detail::npy_api::get().PyArray_Type_; }

bool isReadable(const py::array &array) { return (array.flags() & py::array::c_style) != 0; }

void copyArray(const py::array &array, void *to) {
  const py::array dense = isReadable(array) ? array : py::array::ensure(array, py::array::c_style);
  const auto bytes = static_cast<size_t>(dense.nbytes());
  if (bytes > 0) std::memcpy(to, dense.data(), bytes);
  if (array.dtype().kind() != 'b') return;
  char *const elements = static_cast<char *>(to);
  for (size_t i = 0; i < bytes; ++i) elements[i] = elements[i] != 0; // another value would be undefined in a kernel
}

py::array arrayOf(const user_op::TensorDesc &desc, const void *elements) {
  py::array array(numpyType(desc.data_type()), dimsOf(desc.shape()));
  if (array.nbytes() > 0) std::memcpy(array.mutable_data(), elements, static_cast<size_t>(array.nbytes()));
  return array;
}

py::array arrayOf(HostTensor tensor) {
  auto owned = std::make_unique<HostTensor>(std::move(tensor));
  const py::dtype type = numpyType(owned->dtype());
  const auto dims = dimsOf(owned->shape());
  void *const data = owned->data();
  const py::capsule owner(owned.release(), [](void *p) { delete static_cast<HostTensor *>(p); });
  return data ? py::array(type, dims, data, owner) : py::array(type, dims);
}

} // namespace opc::python
