// Tensor files and the specifications of tensors. Archives are opened through a path, as the command does, of a file in
// memory.
// SPDX-License-Identifier: Apache-2.0
#include "FuzzTargets.h"

#include "TensorFormat.h"
#include "TensorSpec.h"

#include <sys/mman.h>
#include <unistd.h>

namespace opc::fuzz {

namespace {

/// Bytes under a path, without a disk.
class MemoryFile {
public:
  explicit MemoryFile(std::string_view bytes) : fd_(memfd_create("fuzz", 0)) {
    size_t done = 0;
    while (fd_ >= 0 && done < bytes.size()) {
      const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    if (fd_ < 0 || done != bytes.size()) violated("memory file", "cannot be made");
  }
  ~MemoryFile() { ::close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

private:
  int fd_;
};

TensorReadOptions smallOptions() {
  TensorReadOptions options;
  options.maxBytes = 16 << 20;
  return options;
}

void readAll(const char *target, Result<std::unique_ptr<TensorArchive>> archive) {
  if (!archive) return expectProperError(target, archive.status());
  size_t read = 0;
  for (const TensorEntry &entry : (*archive)->entries()) {
    Result<HostTensor> tensor = (*archive)->read(entry.key, smallOptions());
    if (!tensor)
      expectProperError(target, tensor.status());
    else if (entry.dtype != kInvalidDataType && (tensor->dtype() != entry.dtype || tensor->shape() != entry.shape))
      violated(target, "'" + entry.key + "' is not what the archive announced");
    if (++read == 64) break;
  }
  if ((*archive)->read("no such key").isOk() && !(*archive)->contains("no such key"))
    violated(target, "a key that is not there was read");
}

} // namespace

void fuzzNpy(std::string_view bytes) {
  Result<HostTensor> tensor = decodeNpy(bytes, "fuzz.npy", smallOptions());
  if (!tensor) return expectProperError("npy", tensor.status());
  // What was read is written and read again as the same tensor.
  TensorReadOptions options = smallOptions();
  options.voidType = tensor->dtype();
  const std::string again = encodeNpy(*tensor);
  Result<HostTensor> second = decodeNpy(again, "again.npy", options);
  if (!second) violated("npy", "opc does not read what it wrote: " + second.status().toString());
  if (encodeNpy(*second) != again) violated("npy", "writing twice gives two files");
}

void fuzzNpz(std::string_view bytes) {
  MemoryFile file(bytes);
  readAll("npz", openNpz(file.path()));
}

void fuzzSafetensors(std::string_view bytes) {
  MemoryFile file(bytes);
  readAll("safetensors", openSafetensors(file.path()));
}

void fuzzSafetensorsIndex(std::string_view bytes) {
  MemoryFile file(bytes);
  Result<FileBytes> opened = FileBytes::open(file.path());
  if (!opened) violated("safetensors_index", opened.status().toString());
  readAll("safetensors_index", openSafetensorsIndex(std::move(*opened), file.path()));
}

void fuzzOnnxTensor(std::string_view bytes) {
  Result<HostTensor> tensor = decodeOnnxTensor(bytes, "fuzz.pb", smallOptions());
  if (!tensor) return expectProperError("onnx_tensor", tensor.status());
  if (tensor->bytes() > smallOptions().maxBytes) violated("onnx_tensor", "a tensor over the limit was read");
}

void fuzzTensorSpec(std::string_view bytes) {
  const std::string text(bytes);
  if (Result<std::pair<std::string, std::string>> named = cli::splitNamed(text, "--input"); !named)
    expectProperError("tensor_spec", named.status());
  if (Result<Shape> dims = cli::parseDims(text); !dims) expectProperError("tensor_spec", dims.status());
  Result<cli::TensorSpec> spec = cli::parseTensorSpec(text);
  if (!spec) return expectProperError("tensor_spec", spec.status());
  // Files are other targets' affair; here only what the text itself describes is made, if it is small.
  if (spec->kind == cli::TensorSpec::Kind::kFile || spec->kind == cli::TensorSpec::Kind::kRaw) return;
  if (spec->desc) {
    double elements = 1;
    for (int64_t d : spec->desc->shape()) elements *= static_cast<double>(d);
    if (elements > 1 << 16 && elements < 9e18) return;
  }
  for (DataType expected : {kInvalidDataType, kFloat, kInt8, kBool}) {
    cli::SpecContext context;
    context.name = "x";
    context.cast = true;
    if (expected != kInvalidDataType) context.expected.emplace(Shape{2, 3}, expected);
    Result<HostTensor> tensor = cli::makeTensor(*spec, context);
    if (!tensor) expectProperError("tensor_spec", tensor.status());
  }
}

} // namespace opc::fuzz
