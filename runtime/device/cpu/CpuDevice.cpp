// The CPU: host memory, synchronous streams.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/CpuDevice.h"

#include "Parallel.h"

#include <cstdio>
#include <cstring>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

namespace opc::runtime {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

/// Kernels run when they are called; nothing is ever pending.
class CpuStream final : public Stream {
public:
  explicit CpuStream(int threads)
      : context_(DeviceType::kCPU, threads, opc::cpu::parallelFor), alone_(DeviceType::kCPU, threads, nullptr),
        threads_(threads) {}
  DeviceCtx *context() override { return &context_; }
  DeviceCtx *contextAlone() override { return threads_ > 1 ? &alone_ : nullptr; }
  void enter() override { opc::cpu::setLibraryThreads(threads_); }
  void beginStep(uint64_t seed, int64_t step) override { setPosition({seed, step}); }
  void endSteps() override { setPosition({}); }
  Status synchronize() override { return Status::ok(); }
  bool takeInvalid(bool alone) override { return opc::cpu::takeInvalid(alone ? 1 : threads_); }

private:
  void setPosition(const RunPosition &position) {
    context_.setPosition(position);
    alone_.setPosition(position);
  }

  DeviceCtx context_;
  DeviceCtx alone_; // has no loop that threads share; the library's threads stay, its primitives were made for so many
  int threads_;
};

uint64_t readNumber(const char *path) {
  uint64_t v = 0;
  if (std::FILE *f = std::fopen(path, "re")) {
    if (std::fscanf(f, "%lu", &v) != 1) v = 0; // "max" means no limit
    std::fclose(f);
  }
  return v;
}

} // namespace

const std::string &CpuDevice::name() const {
  static const std::string name = "cpu";
  return name;
}

Result<DeviceMemory> CpuDevice::allocate(size_t bytes) {
  if (bytes == 0) return DeviceMemory();
  const size_t page = bytes >= kHugePage ? kHugePage : 4096;
  const size_t rounded = (bytes + page - 1) / page * page;
  void *p = MAP_FAILED;
  if (rounded >= bytes) p = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return Status(StatusCode::kUnsupported, "OPC0614", "cannot get " + std::to_string(bytes) + " bytes of memory");
  // Big tensors are walked from end to end: large pages save most of the TLB misses. Refusal costs nothing.
  if (page == kHugePage) ::madvise(p, rounded, MADV_HUGEPAGE);
  return DeviceMemory(this, p, rounded);
}

void CpuDevice::release(void *data, size_t bytes) { ::munmap(data, bytes); }

void CpuDevice::discard(void *data, size_t bytes) {
  // Whole pages only: neighbours share the first and the last.
  const uintptr_t page = 4096, begin = (reinterpret_cast<uintptr_t>(data) + page - 1) & ~(page - 1),
                  end = (reinterpret_cast<uintptr_t>(data) + bytes) & ~(page - 1);
  if (begin < end) ::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
}

std::unique_ptr<Stream> CpuDevice::createStream(int threads) { return std::make_unique<CpuStream>(threads); }

Status CpuDevice::copyFromHost(Stream &, void *to, const void *from, size_t bytes) {
  if (bytes) std::memcpy(to, from, bytes);
  return Status::ok();
}
Status CpuDevice::copyToHost(Stream &, void *to, const void *from, size_t bytes) {
  if (bytes) std::memcpy(to, from, bytes);
  return Status::ok();
}

int availableCores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  const long n = ::sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? static_cast<int>(n) : 1;
}

uint64_t machineMemory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
  uint64_t bytes =
      pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : uint64_t{1} << 33;
  for (const char *path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    if (const uint64_t limit = readNumber(path); limit != 0 && limit < bytes) bytes = limit;
  return bytes;
}

} // namespace opc::runtime
