// Tensors as numpy's arrays.
// SPDX-License-Identifier: Apache-2.0
#include "NumpyTensors.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstring>

namespace opc::python {

using user_op::TensorDesc;

namespace {

PyArrayObject *asArray(PyObject *object) { return reinterpret_cast<PyArrayObject *>(object); }

std::string nameOfType(PyObject *value) { return Py_TYPE(value)->tp_name; }
std::string textOf(PyObject *value) {
  const PyRef text = PyRef::take(PyObject_Str(value));
  const char *utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!utf8) PyErr_Clear();
  return utf8 ? utf8 : "?";
}

Shape shapeOf(PyArrayObject *array) {
  return Shape(DimVector(PyArray_DIMS(array), PyArray_DIMS(array) + PyArray_NDIM(array)));
}

Status wrong(const std::string &output, const std::string &why, const std::string &help) {
  return Status(StatusCode::kExecution, "OPC0623", "output '" + output + "' " + why).withHelp(help);
}

Status wrongType(const std::string &output, PyArrayObject *array, const TensorDesc &desc) {
  const std::string numpyName = textOf(numpyDtype(desc.data_type()).get());
  return wrong(output,
               "is " + textOf(reinterpret_cast<PyObject *>(PyArray_DESCR(array))) + ", expected " + numpyName + " (" +
                   dataTypeName(desc.data_type()) + ")",
               "return .astype(np." + numpyName + "), or say the element type in the op's shape rule");
}

} // namespace

Status openNumpy() {
  if (_import_array() < 0) {
    PyErr_Clear();
    return Status(StatusCode::kUnsupported, "OPC0922", "this Python has no numpy")
        .withHelp("install it (Debian: python3-numpy)");
  }
  return Status::ok();
}

int numpyNumber(DataType type) {
  const char *code = elementType(type).npyCode; // "f4"; bytes without a meaning are of no type
  return *code == 0 || *code == NPY_VOIDLTR ? -1 : PyArray_TypestrConvert(code[1] - '0', *code);
}

PyRef numpyDtype(DataType type) {
  const int number = numpyNumber(type);
  if (number < 0) {
    PyErr_Format(PyExc_TypeError, "numpy has no element type %s", dataTypeName(type));
    return {};
  }
  return PyRef::take(reinterpret_cast<PyObject *>(PyArray_DescrFromType(number)));
}

PyRef arrayOver(const TensorDesc &desc, void *data, bool writable) {
  static char nothing[16]; // an empty tensor may have no address
  const DimVector &dims = desc.shape().dim_vec();
  PyRef array =
      PyRef::take(PyArray_SimpleNewFromData(static_cast<int>(dims.size()), const_cast<npy_intp *>(dims.data()),
                                            numpyNumber(desc.data_type()), data ? data : nothing));
  if (!array || writable) return array;
  PyArray_CLEARFLAGS(asArray(array.get()), NPY_ARRAY_WRITEABLE);
  // With an owner that lets nobody write, the flag cannot be set again.
  if (PyArray_SetBaseObject(asArray(array.get()), Py_NewRef(Py_None)) < 0) return {};
  return array;
}

CopyTarget::CopyTarget(const TensorDesc &desc, void *data)
    : dims_(desc.shape().dim_vec().begin(), desc.shape().dim_vec().end()), data_(data),
      bytes_(static_cast<size_t>(desc.shape().elem_cnt()) * GetSizeOfDataType(desc.data_type())),
      dtype_(numpyDtype(desc.data_type())) {}

bool CopyTarget::take(PyObject *value) const {
  if (!PyArray_CheckExact(value)) return false;
  PyArrayObject *array = asArray(value);
  if (reinterpret_cast<PyObject *>(PyArray_DESCR(array)) != dtype_.get() || !PyArray_IS_C_CONTIGUOUS(array) ||
      static_cast<size_t>(PyArray_NDIM(array)) != dims_.size())
    return false;
  for (size_t i = 0; i < dims_.size(); ++i)
    if (PyArray_DIM(array, static_cast<int>(i)) != dims_[i]) return false;
  if (PyArray_DATA(array) != data_ && bytes_ > 0) std::memmove(data_, PyArray_DATA(array), bytes_);
  return true;
}

/// Of a class made of numpy's arrays: what is under its mask is any number.
static bool isMasked(PyObject *value) {
  if (PyArray_CheckExact(value)) return false;
  const PyRef module = PyRef::take(PyImport_ImportModule("numpy.ma"));
  const PyRef type = module ? PyRef::take(PyObject_GetAttrString(module.get(), "MaskedArray")) : PyRef();
  const int is = type ? PyObject_IsInstance(value, type.get()) : -1;
  PyErr_Clear();
  return is > 0;
}

Status store(PyObject *value, const TensorDesc &desc, void *data, const std::string &output) {
  PyRef converted;
  if (PyArray_Check(value) && isMasked(value))
    return wrong(output, "is a masked array, and a tensor has no mask",
                 "return .filled(...), or .data: nothing is converted silently");
  if (!PyArray_Check(value)) {
    if (!PyArray_IsScalar(value, Generic))
      return wrong(output, "is a " + nameOfType(value) + ", expected a numpy array of shape " + desc.shape().ToString(),
                   value == Py_None ? "the kernel must return its outputs"
                                    : "return a numpy array: np.asarray(value, dtype) makes one");
    converted = PyRef::take(PyArray_FromScalar(value, nullptr));
    value = converted.get();
  }
  PyArrayObject *array = asArray(value);
  if (PyArray_TYPE(array) != numpyNumber(desc.data_type())) {
    // "long" and "long long" are two numbers of one type.
    const PyRef wanted = numpyDtype(desc.data_type());
    if (!PyArray_EquivTypes(PyArray_DESCR(array), reinterpret_cast<PyArray_Descr *>(wanted.get())))
      return wrongType(output, array, desc);
  }
  const DimVector &dims = desc.shape().dim_vec();
  if (static_cast<size_t>(PyArray_NDIM(array)) != dims.size() ||
      !std::equal(dims.begin(), dims.end(), PyArray_DIMS(array)))
    return wrong(output, "has the shape " + shapeOf(array).ToString() + ", expected " + desc.shape().ToString(),
                 "the op's shape rule and its kernel must agree");
  if (PyArray_IS_C_CONTIGUOUS(array) && PyArray_ISNOTSWAPPED(array)) {
    if (PyArray_DATA(array) != data)
      std::memmove(data, PyArray_DATA(array), static_cast<size_t>(PyArray_NBYTES(array)));
    return Status::ok();
  }
  const PyRef target = arrayOver(desc, data, true);
  if (!target || PyArray_CopyInto(asArray(target.get()), array) < 0) {
    PyErr_Clear();
    return wrong(output, "cannot be copied", "return a contiguous array: np.ascontiguousarray(value)");
  }
  return Status::ok();
}

bool touches(PyObject *value, const void *data, size_t bytes) {
  if (!PyArray_Check(value) || PyArray_SIZE(asArray(value)) == 0) return false;
  PyArrayObject *array = asArray(value);
  const char *low = PyArray_BYTES(array), *high = low + PyArray_ITEMSIZE(array);
  for (int i = 0; i < PyArray_NDIM(array); ++i) {
    const npy_intp span = (PyArray_DIM(array, i) - 1) * PyArray_STRIDE(array, i);
    (span < 0 ? low : high) += span;
  }
  const char *from = static_cast<const char *>(data);
  return low < from + bytes && from < high;
}

PyRef copied(PyObject *array) { return PyRef::take(PyArray_NewCopy(asArray(array), NPY_CORDER)); }

namespace {
template <class List, class Make> PyRef tupleOf(const List &list, Make make) {
  PyRef tuple = PyRef::take(PyTuple_New(static_cast<Py_ssize_t>(list.size())));
  for (size_t i = 0; tuple && i < list.size(); ++i) {
    PyRef item = make(list[i]);
    if (!item) return {};
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return tuple;
}
PyRef pythonInt(int64_t v) { return PyRef::take(PyLong_FromLongLong(v)); }
PyRef pythonShape(const Shape &shape) { return tupleOf(shape.dim_vec(), pythonInt); }
PyRef pythonText(const std::string &s) {
  return PyRef::take(PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}

struct ToPython {
  PyRef operator()(std::monostate) const { return PyRef::share(Py_None); }
  PyRef operator()(int32_t v) const { return pythonInt(v); }
  PyRef operator()(int64_t v) const { return pythonInt(v); }
  PyRef operator()(bool v) const { return PyRef::share(v ? Py_True : Py_False); }
  PyRef operator()(float v) const { return PyRef::take(PyFloat_FromDouble(v)); }
  PyRef operator()(double v) const { return PyRef::take(PyFloat_FromDouble(v)); }
  PyRef operator()(const std::string &v) const { return pythonText(v); }
  PyRef operator()(const Shape &v) const { return pythonShape(v); }
  PyRef operator()(DataType v) const { return numpyNumber(v) < 0 ? pythonText(dataTypeName(v)) : numpyDtype(v); }
  template <class T> PyRef operator()(const std::vector<T> &v) const {
    return tupleOf(v, [](const T &x) { return ToPython()(x); });
  }
  PyRef operator()(const RawAttr &v) const {
    return PyRef::take(PyBytes_FromStringAndSize(v.bytes.data(), static_cast<Py_ssize_t>(v.bytes.size())));
  }
};
} // namespace

PyRef pythonValue(const AttrValue &value) {
  return std::visit([](const auto &v) { return ToPython()(v); }, value.variant());
}

PyRef pythonSpec(PyObject *specType, const TensorDesc &desc) {
  const PyRef shape = pythonShape(desc.shape()), dtype = pythonValue(AttrValue(desc.data_type()));
  if (!shape || !dtype) return {};
  return PyRef::take(PyObject_CallFunctionObjArgs(specType, shape.get(), dtype.get(), nullptr));
}

Result<TensorDesc> descOfSpec(PyObject *spec, const std::string &what) {
  auto bad = [&](const std::string &why) {
    PyErr_Clear();
    return Status(StatusCode::kUnsupported, "OPC0923", what + " " + why)
        .withHelp("return opc.Spec(shape, dtype) for each output");
  };
  const PyRef shape = PyRef::take(PyObject_GetAttrString(spec, "shape"));
  const PyRef dtype = PyRef::take(PyObject_GetAttrString(spec, "dtype"));
  if (!shape || !dtype) return bad("is a " + nameOfType(spec) + ", expected opc.Spec");
  const PyRef dims = PyRef::take(PySequence_Tuple(shape.get()));
  if (!dims) return bad("has a shape that is no tuple");
  DimVector sizes;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dims.get()); ++i) {
    const PyRef index = PyRef::take(PyNumber_Index(PyTuple_GET_ITEM(dims.get(), i)));
    const int64_t size = index ? PyLong_AsLongLong(index.get()) : -1;
    if (size < 0) return bad("has a size that is no count: " + textOf(dims.get()));
    sizes.push_back(size);
  }
  if (const char *name = PyUnicode_Check(dtype.get()) ? PyUnicode_AsUTF8(dtype.get()) : nullptr)
    if (const DataType type = parseDataType(name); type != kInvalidDataType) return TensorDesc(Shape(sizes), type);
  PyArray_Descr *descr = nullptr;
  if (!PyArray_DescrConverter(dtype.get(), &descr) || !descr) return bad("has a dtype that numpy does not know");
  const PyRef owned = PyRef::take(reinterpret_cast<PyObject *>(descr));
  for (int32_t t = kChar; t <= kInt128; ++t)
    if (numpyNumber(static_cast<DataType>(t)) >= 0) {
      const PyRef known = numpyDtype(static_cast<DataType>(t));
      if (PyArray_EquivTypes(descr, reinterpret_cast<PyArray_Descr *>(known.get())))
        return TensorDesc(Shape(sizes), static_cast<DataType>(t));
    }
  return bad("has the dtype " + textOf(owned.get()) + ", which tensors do not have");
}

} // namespace opc::python
