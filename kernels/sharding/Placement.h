// The devices of a tensor or op: ranks arranged as a mesh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace opc {

/// An ordered list of ranks with a hierarchy: `dims` are the mesh's dimensions, outermost first; `ranks` are the ranks
/// of the whole job in row-major order of the mesh, so that the last dimension joins consecutive entries.
struct Placement {
  std::vector<int64_t> dims;
  std::vector<int64_t> ranks;

  /// Ranks first, first + 1, ... in order.
  static Placement dense(std::vector<int64_t> dims, int64_t first = 0);
  int64_t size() const { return static_cast<int64_t>(ranks.size()); }
  /// Where a rank stands in `ranks`; nothing when it is not of this placement.
  std::optional<int64_t> positionOf(int64_t rank) const;
  /// The mesh coordinates of a position.
  std::vector<int64_t> coordinates(int64_t position) const;
  /// The positions that differ from `position` in coordinate `dim` alone, itself included, ascending.
  std::vector<int64_t> group(int64_t position, int64_t dim) const;
  /// "2x4 on ranks 0-7".
  std::string toString() const;
  bool operator==(const Placement &o) const { return dims == o.dims && ranks == o.ranks; }
  bool operator!=(const Placement &o) const { return !(*this == o); }
};

/// "2x4" -> {2, 4}; nothing for anything else, dimensions below 1, or more than 2^20 devices.
std::optional<std::vector<int64_t>> parseMesh(const std::string &text);

} // namespace opc
