// Sizes that a plan is to leave open, as plain data: what `--shape x=n:1..64,784` asks for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace opc {

/// A size that a run chooses, from min to max.
struct SizeRange {
  std::string name;
  int64_t min = 1, max = 1;
};

struct SizeRequest {
  std::vector<SizeRange> sizes;
  /// By input: for each dimension the index of its size, or -1 for one that is fixed. CompileOptions::shapes has the
  /// input's largest shape.
  std::map<std::string, std::vector<int>> dims;
  bool empty() const { return sizes.empty(); }
};

} // namespace opc
