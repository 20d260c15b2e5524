// Which operations touched which bytes last, and whether the next one is ordered behind them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "VectorClock.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace opc::gpusim::driver {

/// An operation as findings name it, and its place in the order.
struct OperationName {
  uint64_t number = 0;
  uint32_t lane = 0;
  uint64_t place = 0; // in its lane
  std::string what;   // "kernel scale", "copy host to device"
  std::string where;  // "stream 2 of device 0"
  std::string text() const { return what + " (operation " + std::to_string(number) + ", " + where + ")"; }
};

enum class Access { kRead, kWrite, kAtomic };

/// Two operations on the same bytes without order.
struct Conflict {
  std::shared_ptr<const OperationName> earlier; // of the two, the one that was executed first
  Access earlierAccess = Access::kRead, access = Access::kRead;
  uint64_t begin = 0, end = 0;
};

/// The last write, and the reads and atomics since, of each byte: device memory, and pinned host memory by its own
/// addresses.
class AccessOrder {
public:
  /// Remembers the access; the first conflict of each earlier operation is added to `found`.
  void touch(const std::shared_ptr<const OperationName> &operation, const VectorClock &clock, Access access,
             uint64_t begin, uint64_t end, std::vector<Conflict> *found);
  /// An allocation ends: its bytes have no history.
  void forget(uint64_t begin, uint64_t end);

private:
  using Name = std::shared_ptr<const OperationName>;
  struct Bytes {
    uint64_t end = 0;
    Name write;
    std::vector<Name> reads, atomics;
    bool sameHistory(const Bytes &other) const {
      return write == other.write && reads == other.reads && atomics == other.atomics;
    }
  };
  using Map = std::map<uint64_t, Bytes>; // by first byte
  Map::iterator splitAt(uint64_t at);
  void merge(uint64_t begin, uint64_t end);

  Map bytes_;
};

} // namespace opc::gpusim::driver
