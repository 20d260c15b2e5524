// DLPack from Python and to it: capsules called "dltensor", which their taker renames.
// SPDX-License-Identifier: Apache-2.0
#include "DlpackArrays.h"

#include "ArrayConversion.h"
#include "Bindings.h"
#include "DlpackTensors.h"
#include "TextParts.h"

#include <memory>
#include <string_view>
#include <utility>

namespace py = pybind11;

namespace opc::python {
namespace {

constexpr char kFresh[] = "dltensor", kUsed[] = "used_dltensor", kOurs[] = "opc_dltensor";

void release(PyObject *capsule) {
  auto *tensor = static_cast<opc_dl_managed_tensor *>(PyCapsule_GetPointer(capsule, kOurs));
  if (tensor && tensor->deleter) tensor->deleter(tensor);
}

/// Takes the tensor over from its maker's capsule: ours frees it.
py::object takeOver(const py::object &made, const std::string &what) {
  if (!PyCapsule_CheckExact(made.ptr()))
    throw py::type_error(
        concat(what, ": __dlpack__ gave a value of type ", Py_TYPE(made.ptr())->tp_name, ", expected a capsule"));
  if (!PyCapsule_IsValid(made.ptr(), kFresh)) {
    const char *name = PyCapsule_GetName(made.ptr());
    throw py::value_error(
        name && std::string_view(name) == kUsed
            ? what + ": its __dlpack__ gave a tensor that has been taken already"
            : concat(what, ": __dlpack__ gave a capsule called '", name ? name : "", "', expected '", kFresh, "'"));
  }
  auto *tensor = static_cast<opc_dl_managed_tensor *>(PyCapsule_GetPointer(made.ptr(), kFresh));
  PyCapsule_SetName(made.ptr(), kUsed);
  return py::reinterpret_steal<py::object>(PyCapsule_New(tensor, kOurs, release));
}

/// A fetched tensor that nobody has taken yet.
class FetchedTensor {
public:
  explicit FetchedTensor(HostTensor tensor) : tensor_(std::move(tensor)) {}
  py::capsule dlpack() {
    opc_dl_managed_tensor *given = capi::giveAway(take());
    return py::reinterpret_steal<py::capsule>(PyCapsule_New(given, kFresh, [](PyObject *capsule) {
      if (!PyCapsule_IsValid(capsule, kFresh)) return; // taken
      auto *left = static_cast<opc_dl_managed_tensor *>(PyCapsule_GetPointer(capsule, kFresh));
      left->deleter(left);
    }));
  }
  py::array array() { return arrayOf(take()); }

private:
  HostTensor take() {
    if (!tensor_.isValid()) throw py::value_error("this tensor has been taken already: fetch it again");
    return std::exchange(tensor_, HostTensor());
  }
  HostTensor tensor_;
};

} // namespace

AnyArray::AnyArray(py::handle value, DataType expected, const std::string &what) {
  if (isPlainArray(value)) {
    owner_ = py::reinterpret_borrow<py::object>(value);
  } else if (!py::isinstance<py::array>(value) && py::hasattr(value, "__dlpack__")) {
    owner_ = takeOver(value.attr("__dlpack__")(), what);
    dlpack_ = &static_cast<opc_dl_managed_tensor *>(PyCapsule_GetPointer(owner_.ptr(), kOurs))->dl_tensor;
  } else {
    owner_ = py::module_::import("opc._arrays").attr("as_array")(value, what, dataTypeName(expected));
  }
}

Status AnyArray::check(const user_op::TensorDesc &expected, const std::string &what) const {
  if (!dlpack_) return checkArray(py::reinterpret_borrow<py::array>(owner_), expected, what);
  OPC_RETURN_IF_ERROR(capi::checkDlpack(*dlpack_, expected, what));
  return checkThere(what);
}

Status AnyArray::checkThere(const std::string &what) const {
  if (!dlpack_) return python::checkThere(py::reinterpret_borrow<py::array>(owner_), what);
  if (bytes() == 0) return Status::ok();
  int64_t steps = 0, dense = 1; // to the last element, in elements
  for (int32_t i = dlpack_->ndim; i-- > 0;) {
    const int64_t stride = dlpack_->strides ? dlpack_->strides[i] : dense;
    if (stride > 0) steps += (dlpack_->shape[i] - 1) * stride;
    dense *= dlpack_->shape[i];
  }
  return python::checkThere(capi::dlpackData(*dlpack_) + (steps + 1) * (dlpack_->dtype.bits / 8) - 1, what);
}

bool AnyArray::isReadable() const {
  if (dlpack_) return capi::isReadable(*dlpack_);
  const auto array = py::reinterpret_borrow<py::array>(owner_);
  return python::isReadable(array) && array.dtype().kind() != 'b';
}

const void *AnyArray::data() const {
  return dlpack_ ? capi::dlpackData(*dlpack_) : py::reinterpret_borrow<py::array>(owner_).data();
}

size_t AnyArray::bytes() const {
  if (!dlpack_) return static_cast<size_t>(py::reinterpret_borrow<py::array>(owner_).nbytes());
  size_t count = dlpack_->dtype.bits / 8;
  for (int32_t i = 0; i < dlpack_->ndim; ++i) count *= static_cast<size_t>(dlpack_->shape[i]);
  return count;
}

Shape AnyArray::shape() const {
  if (dlpack_) return Shape(DimVector(dlpack_->shape, dlpack_->shape + dlpack_->ndim));
  const auto array = py::reinterpret_borrow<py::array>(owner_);
  return Shape(DimVector(array.shape(), array.shape() + array.ndim()));
}

void AnyArray::copyTo(void *to) const {
  dlpack_ ? capi::copyFromDlpack(*dlpack_, to) : copyArray(py::reinterpret_borrow<py::array>(owner_), to);
}

py::object fetchedTensor(HostTensor tensor) { return py::cast(std::make_unique<FetchedTensor>(std::move(tensor))); }

void bindDlpack(py::module_ &module) {
  py::class_<FetchedTensor>(module, "FetchedTensor",
                            "A tensor on the CPU that its taker owns: torch.from_dlpack(tensor), tensor.numpy().")
      .def(
          "__dlpack__", [](FetchedTensor &t, py::handle) { return t.dlpack(); }, py::arg("stream") = py::none())
      .def("__dlpack_device__", [](const FetchedTensor &) { return py::make_tuple(1, 0); })
      .def("numpy", &FetchedTensor::array);
}

} // namespace opc::python
