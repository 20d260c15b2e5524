// Tensor files: npy, npz, safetensors, ONNX tensors, raw bytes. Reading trusts nothing; writing is atomic and
// byte-reproducible.
//
// Error codes: OPC0701 not such a file or a damaged header, OPC0702 truncated or damaged data, OPC0703 dtype mismatch,
// OPC0704 shape mismatch, OPC0705 no such key, OPC0706 cannot be read, OPC0707 cannot be written, OPC0708 over a limit,
// OPC0709 an element type that opc does not have, OPC0710 a name that occurs twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FileBytes.h"
#include "HostTensor.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opc {

struct TensorReadOptions {
  /// numpy writes bf16 and the 8-bit floats (ml_dtypes) as the void types 'V2' and 'V1', which say nothing: they are
  /// taken as this type where it is one of those.
  DataType voidType = kInvalidDataType;
  /// No tensor may be larger. The default is far above any machine's memory, below any overflow.
  uint64_t maxBytes = uint64_t{1} << 46;
  /// Deflated archive members may unpack to at most this many times their packed size (deflate's own bound is 1032).
  uint64_t maxRatio = 1100;
};

/// No tensor of a file may take more memory in this process: at first as much as there is. Mapped files take none.
void limitTensorReads(uint64_t bytes);

// npy --------------------------------------------------------------------------------------------------------------
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html (versions 1, 2, 3).

/// `what` names the source in errors. C and Fortran order, both byte orders; |b1 f2 f4 f8 i1..i8 u1..u8 (V2).
Result<HostTensor> decodeNpy(std::string_view bytes, const std::string &what, const TensorReadOptions &options = {});
Result<HostTensor> readNpy(const std::string &path, const TensorReadOptions &options = {});
/// The header of version 1 for a tensor, padded to a multiple of 64. C order, little endian, bf16 as '|V2'.
std::string npyHeader(DataType type, const Shape &shape);
std::string encodeNpy(const HostTensor &tensor);
Status writeNpy(const std::string &path, const HostTensor &tensor);

// ONNX TensorProto --------------------------------------------------------------------------------------------------
// Format: TensorProto in https://github.com/onnx/onnx/blob/main/docs/IR.md; a file is one serialised message.

/// Errors: OPC0701 (no tensor, or one whose data is in another file: no such file is opened), OPC0702, OPC0708,
/// OPC0709.
Result<HostTensor> decodeOnnxTensor(std::string_view bytes, const std::string &what,
                                    const TensorReadOptions &options = {});
/// `name` may be empty. OPC0708 above 2 GiB.
Status writeOnnxTensor(const std::string &path, const std::string &name, const HostTensor &tensor);

// Archives ---------------------------------------------------------------------------------------------------------

/// What an archive says about a tensor before it is read.
struct TensorEntry {
  std::string key;
  DataType dtype = kInvalidDataType; // kInvalidDataType: only reading it tells
  Shape shape;
};

/// A file that holds tensors under names: npz, safetensors, or a directory of .npy and .pb files.
class TensorArchive {
public:
  virtual ~TensorArchive() = default;
  /// In the order of the file for npz and safetensors, sorted for directories.
  virtual const std::vector<TensorEntry> &entries() const = 0;
  /// Errors: OPC0705 with the nearest keys, and those of decoding.
  virtual Result<HostTensor> read(const std::string &key, const TensorReadOptions &options = {}) const = 0;
  /// The tensor's type from its header: its elements are not read where the format allows it. Errors: as read().
  virtual Result<user_op::TensorDesc> describe(const std::string &key, const TensorReadOptions &options = {}) const;
  /// The tensor's elements into `to`, which has room for a tensor of type `desc`: large files go through memory once.
  /// Errors: as read(), and OPC0703, OPC0704 when it is not of that type.
  virtual Status readInto(const std::string &key, const user_op::TensorDesc &desc, void *to) const;
  virtual bool contains(const std::string &key) const;
  /// "w.npz", for messages.
  const std::string &path() const { return path_; }
  /// Text beside the tensors: the __metadata__ of a safetensors file; else nothing.
  const std::map<std::string, std::string> &metadata() const { return metadata_; }

protected:
  /// OPC0705 for `key`.
  Status noSuchKey(const std::string &key) const;
  std::string path_;
  std::map<std::string, std::string> metadata_;
};

/// Opens an npz (zip; stored and deflated members, zip64, data descriptors), a .safetensors file, a
/// .safetensors.index.json (shards beside it), or a directory of .npy and ONNX .pb files; told apart by content, not by
/// name. A .npy in a directory is keyed by its path without the ending, a .pb by the name it holds (else as .npy). In a
/// directory with files input_N.pb or output_N.pb (an ONNX data set), `role` "input" or "output" leaves the other out.
Result<std::unique_ptr<TensorArchive>> openTensorArchive(const std::string &path, const std::string &role = "");
Result<std::unique_ptr<TensorArchive>> openNpz(const std::string &path);
Result<std::unique_ptr<TensorArchive>> openSafetensors(const std::string &path);

using NamedTensors = std::vector<std::pair<std::string, const HostTensor *>>;
/// Stored members "KEY.npy", sorted by key, all dated 1980-01-01, zip64 where needed. OPC0710 for equal keys.
Status writeNpz(const std::string &path, NamedTensors tensors);
/// Header keys sorted, header padded to 64 bytes, data in key order. OPC0710 for equal keys.
Status writeSafetensors(const std::string &path, NamedTensors tensors);
/// The same with text as __metadata__, on the disk when this returns: for checkpoints.
Status writeCheckpointFile(const std::string &path, NamedTensors tensors,
                           const std::map<std::string, std::string> &metadata);

/// A file of nothing but little-endian elements. OPC0702 when its size is not that of the tensor.
Result<HostTensor> readRaw(const std::string &path, DataType type, const Shape &shape);
Status writeRaw(const std::string &path, const HostTensor &tensor);

/// One tensor of a file, opened once and read when it is wanted: PATH of an .npy or .pb, or PATH:KEY of an archive
/// ("w.npz:fc1"). The longest prefix that exists is the path, so names with ':' work.
class TensorFile {
public:
  /// Errors: OPC0706, OPC0705, and those of opening an archive.
  static Result<TensorFile> open(const std::string &spec);
  /// The type from the header; elements are not read where the format allows it. A V2 tensor is bf16 when `expected` is
  /// bf16, which is not enforced.
  Result<user_op::TensorDesc> describe(DataType expected = kInvalidDataType) const;
  Result<HostTensor> read(DataType expected = kInvalidDataType) const;
  /// The elements into `to`, which has room for a tensor of type `desc`. Errors: as read(), and OPC0703, OPC0704.
  Status readInto(const user_op::TensorDesc &desc, void *to) const;
  /// Calls `each` with aligned elements, where they begin, and how many there are, in order: a block at a time where
  /// they lie in the file as in memory, else all at once. Errors: as read(), and those of `each`.
  using Block = std::function<Status(const void *elements, int64_t first, int64_t count)>;
  Status forEachBlock(const Block &each, DataType expected = kInvalidDataType) const;

private:
  friend class MappedTensor; // which takes over the bytes of an npy
  std::string path_, key_;
  FileBytes file_;                         // of one tensor
  std::unique_ptr<TensorArchive> archive_; // or of several
};

/// One tensor from any file: PATH of an .npy or .pb, or PATH:KEY of an archive ("w.npz:fc1"). The longest prefix that
/// exists is the path, so names with ':' work. A tensor of a void type is taken as `expected`. `expected` is not
/// enforced.
Result<HostTensor> readTensor(const std::string &spec, DataType expected = kInvalidDataType);

} // namespace opc
