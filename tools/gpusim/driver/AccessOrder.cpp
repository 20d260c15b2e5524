// Conflicts are found whatever the order of execution was: of two operations without order, the second one sees the
// first one's mark.
// SPDX-License-Identifier: Apache-2.0
#include "AccessOrder.h"

#include <algorithm>

namespace opc::gpusim::driver {

AccessOrder::Map::iterator AccessOrder::splitAt(uint64_t at) {
  auto it = bytes_.upper_bound(at);
  if (it == bytes_.begin()) return it;
  const auto before = std::prev(it);
  if (before->first == at) return before;
  if (before->second.end <= at) return it;
  Bytes rest = before->second;
  before->second.end = at;
  return bytes_.emplace_hint(it, at, std::move(rest));
}

void AccessOrder::merge(uint64_t begin, uint64_t end) {
  auto it = bytes_.lower_bound(begin);
  if (it != bytes_.begin()) --it;
  while (it != bytes_.end() && it->first <= end) {
    const auto next = std::next(it);
    if (next == bytes_.end()) return;
    if (it->second.end == next->first && it->second.sameHistory(next->second)) {
      it->second.end = next->second.end;
      bytes_.erase(next);
    } else {
      it = next;
    }
  }
}

void AccessOrder::touch(const Name &operation, const VectorClock &clock, Access access, uint64_t begin, uint64_t end,
                        std::vector<Conflict> *found) {
  if (begin >= end) return;
  const auto isBefore = [&](const Name &n) { return n == operation || clock.at(n->lane) >= n->place; };
  const auto compare = [&](const Name &n, Access earlier, uint64_t from, uint64_t to) {
    if (!n || isBefore(n)) return;
    for (const Conflict &c : *found)
      if (c.earlier == n) return;
    found->push_back({n, earlier, access, from, to});
  };
  // A later operation that is ordered behind this one is ordered behind what this one is ordered behind.
  const auto add = [&](std::vector<Name> &list) {
    list.erase(std::remove_if(list.begin(), list.end(), isBefore), list.end());
    list.push_back(operation);
  };
  splitAt(end);
  auto it = splitAt(begin);
  for (uint64_t at = begin; at < end;) {
    const uint64_t next = it == bytes_.end() ? end : std::min(end, it->first);
    if (at < next) { // no history yet
      if (access != Access::kWrite) {
        Bytes fresh;
        fresh.end = next;
        add(access == Access::kRead ? fresh.reads : fresh.atomics);
        bytes_.emplace_hint(it, at, std::move(fresh));
      }
      at = next;
      continue;
    }
    Bytes &b = it->second;
    compare(b.write, Access::kWrite, at, b.end);
    if (access != Access::kAtomic)
      for (const Name &n : b.atomics) compare(n, Access::kAtomic, at, b.end);
    if (access != Access::kRead)
      for (const Name &n : b.reads) compare(n, Access::kRead, at, b.end);
    at = b.end;
    if (access == Access::kWrite)
      it = bytes_.erase(it);
    else
      add(access == Access::kRead ? b.reads : b.atomics), ++it;
  }
  if (access == Access::kWrite) {
    Bytes written;
    written.end = end, written.write = operation;
    bytes_.emplace(begin, std::move(written));
  }
  merge(begin, end);
}

void AccessOrder::forget(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  splitAt(end);
  for (auto it = splitAt(begin); it != bytes_.end() && it->first < end;) it = bytes_.erase(it);
}

} // namespace opc::gpusim::driver
