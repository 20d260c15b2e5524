// The table of what is mapped.
// SPDX-License-Identifier: Apache-2.0
#include "MappedFiles.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sys/stat.h>

namespace opc {

namespace {

/// For the handler of SIGBUS: entries are taken and given back with atomic operations alone. What finds no room is not
/// known, and dies as any other process would.
struct Mapping {
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<const char *> path{nullptr};
  std::atomic<uint64_t> device{0}, node{0};
};
constexpr size_t kMostMappings = 1024;
Mapping mappings[kMostMappings];
std::mutex forgetting; // a name is not freed while somebody looks at its file

} // namespace

void rememberMapping(const char *data, size_t size, const std::string &path) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  struct stat file{};
  const bool isKnown = ::stat(path.c_str(), &file) == 0;
  for (Mapping &m : mappings) {
    uintptr_t none = 0;
    if (!m.begin.compare_exchange_strong(none, begin)) continue;
    m.device = isKnown ? file.st_dev : 0;
    m.node = isKnown ? file.st_ino : 0;
    m.path = ::strdup(path.c_str());
    m.end = begin + size;
    return;
  }
}

void forgetMapping(const char *data) {
  const std::lock_guard<std::mutex> lock(forgetting);
  for (Mapping &m : mappings) {
    if (m.begin != reinterpret_cast<uintptr_t>(data)) continue;
    m.end = 0;
    std::free(const_cast<char *>(m.path.exchange(nullptr)));
    m.begin = 0;
    return;
  }
}

const char *pathOfMapping(const void *address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  for (const Mapping &m : mappings)
    if (at >= m.begin && at < m.end) return m.path;
  return nullptr;
}

Status mappingsAreWhole(const void *address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  const std::lock_guard<std::mutex> lock(forgetting);
  for (const Mapping &m : mappings) {
    const char *path = m.path;
    struct stat now{};
    if (!path || m.end <= m.begin || m.node == 0 || (address && (at < m.begin || at >= m.end))) continue;
    if (::stat(path, &now) != 0) continue;
    if (now.st_dev != m.device || now.st_ino != m.node) continue; // another file has the name: the mapped one stays
    if (static_cast<uint64_t>(now.st_size) >= m.end - m.begin) continue;
    return Status(StatusCode::kExecution, "OPC0702", std::string(path) + ": the file became shorter while it was read")
        .withHelp("leave files alone that a run reads, or replace them by renaming");
  }
  return Status::ok();
}

} // namespace opc
