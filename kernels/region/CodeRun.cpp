// What the kernels of regions share: memory of a thread, calls of machine code.
// SPDX-License-Identifier: Apache-2.0
#include "RowRegion.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace opc {

Status noLoopHere(const OpInstance &op) {
  return Status(StatusCode::kUnsupported, "OPC0411",
                op.def().name + ": its kernel here has no loop over elements, and the plan joins it with others")
      .withHelp("compile the graph again with these kernels, or with --no-fuse");
}

char *scratchOfThread(size_t bytes) {
  struct Scratch {
    char *data = nullptr;
    size_t bytes = 0;
    ~Scratch() { std::free(data); }
  };
  thread_local Scratch scratch;
  if (scratch.bytes < bytes) {
    std::free(scratch.data);
    scratch.bytes = (bytes + 4095) / 4096 * 4096;
    scratch.data = static_cast<char *>(std::aligned_alloc(4096, scratch.bytes));
    if (!scratch.data) {
      scratch.bytes = 0;
      throw std::bad_alloc();
    }
  }
  return scratch.data;
}

void runCode(const RegionCode &code, const Region &region, const void **in, void *const *out, int64_t n) {
  const size_t inputs = region.inputs.size(), outputs = region.outputs.size();
  const auto size = [&](size_t value) {
    return static_cast<int64_t>(GetSizeOfDataType(region.descOf(static_cast<uint32_t>(value)).data_type()));
  };
  const int64_t rest = n % code.lanes, whole = n - rest;
  if (whole > 0) code.function(in, out, whole);
  if (rest == 0) return;
  alignas(64) char vectors[kMaxRegionTensors][8 * kMaxRegionLanes];
  for (size_t v = 0; v < inputs; ++v) {
    if (region.inputs[v].shape().elem_cnt() == 1 && region.shape.elem_cnt() != 1) continue;
    std::memset(vectors[v], 0, sizeof vectors[v]);
    std::memcpy(vectors[v], static_cast<const char *>(in[v]) + whole * size(v), static_cast<size_t>(rest * size(v)));
    in[v] = vectors[v];
  }
  void *results[kMaxRegionTensors];
  for (size_t o = 0; o < outputs; ++o) results[o] = vectors[inputs + o];
  code.function(in, results, code.lanes);
  for (size_t o = 0; o < outputs; ++o) {
    const int64_t bytes = size(region.outputs[o]);
    std::memcpy(static_cast<char *>(out[o]) + whole * bytes, results[o], static_cast<size_t>(rest * bytes));
  }
}

} // namespace opc
