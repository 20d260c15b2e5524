// What the readers of tensor formats share: size checks of untrusted headers, and the openers by content.
#pragma once

#include "FileBytes.h"
#include "TensorIo.h"

namespace opc {

/// Bytes of a tensor that a file announces; OPC0708 when that overflows or is over options.maxBytes.
Result<int64_t> checkedTensorBytes(DataType type, const Shape &shape, const std::string &what,
                                   const TensorReadOptions &options);
/// Makes every byte of a bool tensor 0 or 1.
void normalizeBools(HostTensor *t);

Result<std::unique_ptr<TensorArchive>> openNpzBytes(FileBytes file, const std::string &path);
Result<std::unique_ptr<TensorArchive>> openSafetensorsBytes(FileBytes file, const std::string &path);
/// A .safetensors.index.json: the shards lie beside it.
Result<std::unique_ptr<TensorArchive>> openSafetensorsIndex(FileBytes file, const std::string &path);
Result<std::unique_ptr<TensorArchive>> openNpyDirectory(const std::string &path);

/// Sorts by key; OPC0710 when two are equal.
Status sortUnique(const std::string &path, NamedTensors *tensors);

} // namespace opc
