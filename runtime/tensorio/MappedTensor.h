// A tensor of a file, in place where the file allows it: data sets are larger than what one step needs of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FileBytes.h"
#include "TensorIo.h"

#include <functional>

namespace opc {

/// Read-only elements. Those of an npy file in this machine's order are mapped, all others read into memory.
class MappedTensor {
public:
  /// PATH of an npy file, or PATH:KEY of an archive, as readTensor() takes them. `expected` tells V2 from bf16 and is
  /// not enforced. `check` sees the type before elements are read. Errors: those of readTensor(), and of `check`.
  using Check = std::function<Status(const user_op::TensorDesc &)>;
  static Result<MappedTensor> open(const std::string &spec, DataType expected = kInvalidDataType,
                                   const Check &check = {});
  /// The type alone: elements are not read where the format allows it. Errors: as open().
  static Result<user_op::TensorDesc> describe(const std::string &spec, DataType expected = kInvalidDataType);
  /// Takes over a tensor in memory.
  explicit MappedTensor(HostTensor tensor) : desc_(tensor.desc()), owned_(std::move(tensor)) {}

  const user_op::TensorDesc &desc() const { return desc_; }
  const char *data() const { return mapped_ ? mapped_ : owned_.as<char>(); }
  bool isMapped() const { return mapped_ != nullptr; }
  /// OPC0702 where it is mapped and its file has become shorter: to be asked before elements are read, which would end
  /// the process, and behind it, for those of the file's last page are zeros then.
  Status isWhole() const;
  /// The elements in memory; a copy when they are mapped.
  Result<HostTensor> toHost() const;

private:
  MappedTensor() = default;
  user_op::TensorDesc desc_;
  FileBytes file_;
  const char *mapped_ = nullptr;
  HostTensor owned_;
};

} // namespace opc
