// Tensors in place.
// SPDX-License-Identifier: Apache-2.0
#include "MappedTensor.h"
#include "TensorFormat.h"

#include <cstring>

namespace opc {

Result<MappedTensor> MappedTensor::open(const std::string &spec, DataType expected, const Check &check) {
  MappedTensor t;
  TensorReadOptions options;
  options.voidType = expected;
  // A file of that very name first; what is not an npy, or not one that can be used as it is, goes the common way.
  if (Result<FileBytes> file = openTensorBytes(spec); file && file->view().substr(0, 6) == "\x93NUMPY") {
    OPC_ASSIGN_OR_RETURN(std::optional<NpyView> view, viewNpy(file->view(), spec, options));
    if (view) {
      if (check) OPC_RETURN_IF_ERROR(check(view->desc));
      t.desc_ = view->desc;
      t.mapped_ = view->data;
      t.file_ = std::move(*file);
      return t;
    }
  }
  OPC_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::open(spec));
  if (check) {
    OPC_ASSIGN_OR_RETURN(const user_op::TensorDesc desc, file.describe(expected));
    OPC_RETURN_IF_ERROR(check(desc));
  }
  OPC_ASSIGN_OR_RETURN(HostTensor read, file.read(expected));
  return MappedTensor(std::move(read));
}

Result<user_op::TensorDesc> MappedTensor::describe(const std::string &spec, DataType expected) {
  TensorReadOptions options;
  options.voidType = expected;
  if (Result<FileBytes> file = openTensorBytes(spec); file && file->view().substr(0, 6) == "\x93NUMPY") {
    OPC_ASSIGN_OR_RETURN(const NpyLayout layout, npyLayout(file->view(), spec, options));
    return layout.desc;
  }
  OPC_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::open(spec));
  return file.describe(expected);
}

Result<HostTensor> MappedTensor::toHost() const {
  Result<HostTensor> t = HostTensor::createUninitialized(desc_.data_type(), desc_.shape());
  if (t && t->bytes()) std::memcpy(t->data(), data(), t->bytes());
  return t;
}

} // namespace opc
