// Wrong indices that kernels have reported: read back, and said as the CPU says them.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/IndexFaults.h"

#include "DeviceErrors.h"
#include "cuda/CudaStream.h"

#include <algorithm>

namespace opc::runtime {

using opc::cuda::IndexFault;

IndexFault *IndexFaults::place(size_t i) const {
  return reinterpret_cast<IndexFault *>(chunks_[i / kChunk].data()) + i % kChunk;
}

Result<IndexFault *> IndexFaults::watch(CudaDevice &device, CudaStream &stream, const std::string &opType,
                                        const std::string &opName, const std::string &argument, Text text) {
  const auto [found, isNew] = known_.try_emplace({opName, argument}, watches_.size());
  const size_t i = found->second;
  if (!isNew) {
    watches_[i].text = std::move(text);
    return place(i);
  }
  if (i / kChunk == chunks_.size()) {
    OPC_ASSIGN_OR_RETURN(DeviceMemory memory, device.allocate(kChunk * sizeof(IndexFault)));
    stream.fill(memory.data(), 0xff, memory.bytes());
    chunks_.push_back(std::move(memory));
  }
  watches_.push_back({opType, opName, std::move(text)});
  return place(i);
}

Status IndexFaults::check(CudaStream &stream) {
  Status first; // all notes are taken back: a later run answers for its own alone
  for (size_t begin = 0; begin < watches_.size(); begin += kChunk) {
    std::vector<IndexFault> faults(std::min(kChunk, watches_.size() - begin));
    const size_t bytes = faults.size() * sizeof(IndexFault);
    OPC_RETURN_IF_ERROR(stream.copyToHost(faults.data(), place(begin), bytes));
    const auto bad =
        std::find_if(faults.begin(), faults.end(), [](const IndexFault &f) { return f.low != opc::cuda::kNoFault; });
    if (bad == faults.end()) continue;
    stream.fill(place(begin), 0xff, bytes);
    if (!first.isOk()) continue;
    const Watch &w = watches_[begin + static_cast<size_t>(bad - faults.begin())];
    const auto value = static_cast<int64_t>((bad->high << 32) | (bad->low & 0xffffffffu));
    first =
        Status(StatusCode::kExecution, "OPC0601", w.opType + ": " + w.text(static_cast<int64_t>(bad->low >> 32), value))
            .withContext(runningText(w.opName));
  }
  return first;
}

} // namespace opc::runtime
