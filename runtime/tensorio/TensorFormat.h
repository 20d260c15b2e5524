// What the readers of tensor formats share: size checks of untrusted headers, and the openers by content.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FileBytes.h"
#include "TensorIo.h"

#include "opc/PackedElements.h"

#include <optional>

namespace opc {

/// Bytes of a tensor that a file announces; OPC0708 when that overflows or is over options.maxBytes.
Result<int64_t> checkedTensorBytes(DataType type, const Shape &shape, const std::string &what,
                                   const TensorReadOptions &options);
/// Room for a tensor of a file. OPC0708 when it is over the limit of limitTensorReads().
Result<HostTensor> roomFor(DataType type, const Shape &shape, const std::string &what);
/// A file of tensors. What comes through a pipe is kept in memory: it is bounded by limitTensorReads(), too. Errors:
/// those of FileBytes::open(), OPC0708 for a device.
Result<FileBytes> openTensorBytes(const std::string &path);
/// OPC0708 when `what` is over the limit of limitTensorReads().
Status checkReadLimit(uint64_t bytes, const std::string &what);
/// Whether a byte of such a tensor may be none of its elements: bool, and types under a byte.
inline bool isLoose(DataType type) { return type == kBool || isPackedInFiles(type); }
/// Makes every byte one that an element may be (normalizeElements).
void normalize(HostTensor *t);

/// The elements of an npy file as they lie in its bytes.
struct NpyView {
  user_op::TensorDesc desc;
  const char *data = nullptr;
};
/// Nothing when the elements must be converted: another order of bytes or dimensions, bools. Errors as decodeNpy.
Result<std::optional<NpyView>> viewNpy(std::string_view bytes, const std::string &what,
                                       const TensorReadOptions &options);

/// What the header of an npy file says. `head` may end anywhere after it. Errors as decodeNpy.
struct NpyLayout {
  user_op::TensorDesc desc;
  size_t begin = 0;     // of the elements
  uint64_t bytes = 0;   // of the elements
  bool isPlain = false; // they lie in the file as they lie in memory, and need no check
};
Result<NpyLayout> npyLayout(std::string_view head, const std::string &what, const TensorReadOptions &options);
/// OPC0702 when there are not as many bytes of data as the header announces.
Status checkNpySize(const NpyLayout &layout, uint64_t dataBytes, const std::string &what);
constexpr size_t kMostNpyHead = 12 + (1 << 16); // bytes before the elements, at most

/// The type in an ONNX tensor file, without reading its data; nothing when only decodeOnnxTensor() can tell.
std::optional<user_op::TensorDesc> onnxTensorDesc(std::string_view bytes);

/// Copies a part of a file. What has been copied need not stay mapped: the file never doubles the memory of its
/// tensors.
void copyAndLetGo(const FileBytes &file, std::string_view part, void *to);

Result<std::unique_ptr<TensorArchive>> openNpzBytes(FileBytes file, const std::string &path);
Result<std::unique_ptr<TensorArchive>> openSafetensorsBytes(FileBytes file, const std::string &path);
/// A .safetensors.index.json: the shards lie beside it.
Result<std::unique_ptr<TensorArchive>> openSafetensorsIndex(FileBytes file, const std::string &path);
/// `role`: "input" or "output" of an ONNX data set, or empty.
Result<std::unique_ptr<TensorArchive>> openTensorDirectory(const std::string &path, const std::string &role);

/// The name in an ONNX tensor file, without reading its data; empty when it has none or is none.
std::string onnxTensorName(std::string_view bytes);

/// Sorts by key; OPC0710 when two are equal.
Status sortUnique(const std::string &path, NamedTensors *tensors);

} // namespace opc
