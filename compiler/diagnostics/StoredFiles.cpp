// The files in which tensors lie.
// SPDX-License-Identifier: Apache-2.0
#include "StoredFiles.h"

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sys/stat.h>
#include <vector>

namespace opc {

namespace {

/// A file in this process's memory, as the system tells it.
struct Mapping {
  uintptr_t begin = 0, end = 0;
  uint64_t offset = 0, node = 0;
  std::string path;
};

std::vector<Mapping> mappedFiles() {
  std::vector<Mapping> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping m;
    int name = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*4s %" SCNx64 " %*s %" SCNu64 " %n", &m.begin, &m.end,
                    &m.offset, &m.node, &name) != 4 ||
        m.node == 0)
      continue;
    m.path = line.substr(static_cast<size_t>(name));
    found.push_back(std::move(m));
  }
  return found; // by address
}

} // namespace

Status filesAreComplete(const std::map<std::string, StoredTensor> &tensors) {
  const bool any = std::any_of(tensors.begin(), tensors.end(), [](const auto &t) { return t.second.isMapped; });
  const std::vector<Mapping> files = any ? mappedFiles() : std::vector<Mapping>();
  std::map<const Mapping *, int64_t> sizes; // -1: another file has its name by now, and the mapped one stays as it is
  for (const auto &[name, tensor] : tensors) {
    if (!tensor.isMapped || tensor.bytes.empty()) continue;
    const auto at = reinterpret_cast<uintptr_t>(tensor.bytes.data());
    auto next =
        std::upper_bound(files.begin(), files.end(), at, [](uintptr_t a, const Mapping &m) { return a < m.begin; });
    if (next == files.begin() || (--next)->end <= at) continue;
    auto [size, fresh] = sizes.try_emplace(&*next, -1);
    if (struct stat now; fresh && ::stat(next->path.c_str(), &now) == 0 && now.st_ino == next->node)
      size->second = now.st_size;
    const uint64_t end = next->offset + (at - next->begin) + tensor.bytes.size();
    if (size->second < 0 || end <= static_cast<uint64_t>(size->second)) continue;
    return Status(StatusCode::kInvalidGraph, "OPC0323",
                  "tensor '" + name + "' ends at byte " + std::to_string(end) + " of '" + next->path + "', which has " +
                      std::to_string(size->second) + " by now")
        .withHelp("the file was written since the model was read from it: read the model again");
  }
  return Status::ok();
}

} // namespace opc
