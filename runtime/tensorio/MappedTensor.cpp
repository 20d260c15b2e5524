// Tensors in place.
// SPDX-License-Identifier: Apache-2.0
#include "MappedTensor.h"
#include "MappedFiles.h"
#include "TensorFormat.h"

#include <cstring>

namespace opc {

/// The file is opened once: what comes through a pipe comes once.
Result<MappedTensor> MappedTensor::open(const std::string &spec, DataType expected, const Check &check) {
  MappedTensor t;
  TensorReadOptions options;
  options.voidType = expected;
  OPC_ASSIGN_OR_RETURN(TensorFile file, TensorFile::open(spec));
  if (!file.archive_ && file.file_.view().substr(0, 6) == "\x93NUMPY") {
    OPC_ASSIGN_OR_RETURN(std::optional<NpyView> view, viewNpy(file.file_.view(), spec, options));
    if (view) {
      if (check) OPC_RETURN_IF_ERROR(check(view->desc));
      t.desc_ = view->desc;
      t.mapped_ = view->data;
      t.file_ = std::move(file.file_);
      return t;
    }
  }
  if (check) {
    OPC_ASSIGN_OR_RETURN(const user_op::TensorDesc desc, file.describe(expected));
    OPC_RETURN_IF_ERROR(check(desc));
  }
  OPC_ASSIGN_OR_RETURN(HostTensor read, file.read(expected));
  return MappedTensor(std::move(read));
}

Result<user_op::TensorDesc> MappedTensor::describe(const std::string &spec, DataType expected) {
  OPC_ASSIGN_OR_RETURN(const TensorFile file, TensorFile::open(spec));
  return file.describe(expected);
}

Status MappedTensor::isWhole() const { return mapped_ ? mappingsAreWhole(mapped_) : Status::ok(); }

Result<HostTensor> MappedTensor::toHost() const {
  Result<HostTensor> t = HostTensor::createUninitialized(desc_.data_type(), desc_.shape());
  if (t && t->bytes()) std::memcpy(t->data(), data(), t->bytes());
  return t;
}

} // namespace opc
