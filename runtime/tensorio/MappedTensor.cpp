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
    Result<std::optional<NpyView>> view = viewNpy(file->view(), spec, options);
    if (!view) return view.status();
    if (*view) {
      t.desc_ = (*view)->desc;
      t.mapped_ = (*view)->data;
      t.file_ = std::move(*file);
      return t;
    }
  }
  Result<HostTensor> read = readTensor(spec, expected);
  if (!read) return read.status();
  return MappedTensor(std::move(*read));
}

Result<HostTensor> MappedTensor::toHost() const {
  Result<HostTensor> t = HostTensor::createUninitialized(desc_.data_type(), desc_.shape());
  if (t && t->bytes()) std::memcpy(t->data(), data(), t->bytes());
  return t;
}

} // namespace opc
