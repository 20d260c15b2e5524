// Tensors in place.
// SPDX-License-Identifier: Apache-2.0
#include "MappedTensor.h"
#include "TensorFormat.h"

#include <cstring>

namespace opc {

Result<MappedTensor> MappedTensor::open(const std::string &spec, DataType expected) {
  MappedTensor t;
  TensorReadOptions options;
  options.voidType = expected;
  // A file of that very name first; what is not an npy, or not one that can be used as it is, goes the common way.
  if (Result<FileBytes> file = FileBytes::open(spec); file && file->view().substr(0, 6) == "\x93NUMPY") {
    OPC_ASSIGN_OR_RETURN(std::optional<NpyView> view, viewNpy(file->view(), spec, options));
    if (view) {
      t.desc_ = view->desc;
      t.mapped_ = view->data;
      t.file_ = std::move(*file);
      return t;
    }
  }
  OPC_ASSIGN_OR_RETURN(HostTensor read, readTensor(spec, expected));
  return MappedTensor(std::move(read));
}

Result<HostTensor> MappedTensor::toHost() const {
  Result<HostTensor> t = HostTensor::createUninitialized(desc_.data_type(), desc_.shape());
  if (t && t->bytes()) std::memcpy(t->data(), data(), t->bytes());
  return t;
}

} // namespace opc
