// Values by name: inputs, weights and expectations from flags, archives and generators.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "TensorSpec.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

/// "NAME=SPEC" flags and one archive, by name; a flag wins over the archive.
class NamedValues {
public:
  /// Parses the flags, opens the archive (empty path: none). `flag` is named in errors.
  static Result<NamedValues> open(const std::vector<std::string> &specs, const std::string &archivePath,
                                  const std::string &flag);

  bool has(const std::string &name) const;
  /// The tensor for `name`, which has() it. Reads the file or makes the value.
  Result<HostTensor> make(const SpecContext &context) const;
  /// The same straight into `to`, which has room for a tensor of the expected type: for a value in a file that has this
  /// type, or is to be cast to it. False for any other, which make() makes.
  Result<bool> readInto(const SpecContext &context, void *to) const;
  /// The shape that a file's header or a typed spec gives, without an expected one; nothing for a bare number or
  /// generator.
  Result<std::optional<Shape>> shapeOf(const std::string &name, DataType expected) const;
  /// The type of a value in a file, from its header: a V2 tensor is taken as `expected`. Nothing for any other value.
  Result<std::optional<user_op::TensorDesc>> fileTypeOf(const std::string &name, DataType expected) const;
  /// The type that a flag's specification writes, "f32[2,3]"; nothing when it writes none.
  std::optional<user_op::TensorDesc> typeOf(const std::string &name) const;
  /// Where the value comes from, for reports: "@x.npy", "in.npz".
  std::string origin(const std::string &name) const;
  /// The flag that gives `name` a value, "--input" or "--feed"; "" when none does.
  std::string flagOf(const std::string &name) const;
  /// Names given by flags, in order.
  std::vector<std::string> flagNames() const;
  /// Keys of the archive.
  std::vector<std::string> archiveKeys() const;
  const std::string &archivePath() const { return archivePath_; }

  /// Changes the name of a flag's value.
  void rename(const std::string &from, const std::string &to);
  /// Takes over the flags of `other`. OPC0003 when a name is in both; `flag` is named in it.
  Status absorb(NamedValues &&other, const std::string &flag);
  /// Forgets a flag's value.
  void drop(const std::string &name);

private:
  struct Entry {
    std::string name, text, flag;
    TensorSpec spec;
    mutable std::unique_ptr<TensorFile> file; // of Kind::kFile, opened when first asked for: a pipe is read once

    Result<const TensorFile *> open() const;
  };
  const Entry *find(const std::string &name) const;
  std::vector<Entry> entries_;
  std::unique_ptr<TensorArchive> archive_;
  std::string archivePath_;
};

/// OPC0005: `name` is none of `known`; says what `kind` of thing they are and which are near. When none is, `lister`
/// says them all; without it, the help does.
Status noSuchName(const std::string &kind, const std::string &name, const std::vector<std::string> &known,
                  const std::string &flag, const std::string &lister = "");

} // namespace opc::cli
