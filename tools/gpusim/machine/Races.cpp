// The race checker: last writer and two readers of each four bytes, against what barriers have ordered.
// SPDX-License-Identifier: Apache-2.0
#include "Races.h"

#include <algorithm>
#include <cstdio>

namespace opc::gpusim {

namespace {

/// Whether the access of a stamp happened before what the lane does now.
bool ordered(const Lanes &x, int lane, Stamp s) {
  if (s.block() != (x.block.linear & 0xffffff)) return false;
  uint32_t warp = s.thread() >> 5, other = s.thread() & 31;
  if (warp != x.warp.number) return s.clock() <= x.warp.others[warp];
  return other == uint32_t(lane) || x.warp.laneSaw(uint32_t(lane), other, s.clock());
}

bool conflicts(const Lanes &x, int lane, Stamp s, uint32_t mask, bool strong) {
  return s.valid() && (s.mask() & mask) && !(strong && s.strong()) && !ordered(x, lane, s);
}

void report(Lanes &x, int lane, const Want &want, Stamp s, bool wasWrite) {
  const Launch &launch = x.run.launch;
  Dim3 t = x.block.thread(launch.block, s.thread());
  char who[96];
  if (s.block() != (x.block.linear & 0xffffff)) {
    uint32_t b = s.block();
    std::snprintf(who, sizeof who, "thread (%u,%u,%u) of block (%u,%u,%u)", t.x, t.y, t.z, b % launch.grid.x,
                  b / launch.grid.x % launch.grid.y, b / launch.grid.x / launch.grid.y);
  } else {
    std::snprintf(who, sizeof who, "thread (%u,%u,%u) of the same block", t.x, t.y, t.z);
  }
  char text[320];
  const char *how = want.use == Use::kRead ? "reads" : want.use == Use::kWrite ? "writes" : "changes";
  const char *space = want.space == Space::kShared ? "shared" : "global";
  std::snprintf(
      text, sizeof text,
      "%s %u bytes at %s address 0x%llx, which %s %s without an order between the two (no barrier, kernel end or atomic)",
      how, want.size, space, (unsigned long long)want.address, who, wasWrite ? "writes" : "reads");
  x.find(lane, "race", kCudaLaunchFailed, text, false);
}

/// Which warp of which block.
uint64_t warpOf(Stamp s) { return s.bits >> 35; }

void read(Lanes &x, int lane, Cell &c, Stamp now, const Want &want, uint32_t mask) {
  if (conflicts(x, lane, c.writer, mask, want.strong)) report(x, lane, want, c.writer, true);
  c.read |= uint8_t(mask);
  // Until something is ordered anew, readers of two warps will do, and of this warp two lanes.
  if (c.interval == x.block.interval &&
      (warpOf(c.reader[0]) != warpOf(c.reader[1]) || warpOf(now) == warpOf(c.reader[0])))
    return;
  // A reader that is ordered before this one says nothing any more; of unordered ones two are kept, of two warps if
  // possible.
  for (Stamp &r : c.reader) {
    if ((r.bits >> 6) == (now.bits >> 6)) { // the same thread in the same interval
      r.bits |= mask;
      return;
    }
    if (!r.valid() || ordered(x, lane, r)) {
      r = now;
      return;
    }
  }
  if (warpOf(c.reader[0]) == warpOf(c.reader[1]) && warpOf(now) != warpOf(c.reader[0])) c.reader[1] = now;
  c.interval = x.block.interval;
}

void write(Lanes &x, int lane, Cell &c, Stamp now, const Want &want, uint32_t mask, bool same) {
  bool strong = now.strong();
  bool sameWarp = c.writer.valid() && (c.writer.bits >> 35) == (now.bits >> 35) && c.writer.clock() == now.clock();
  if (!(same && sameWarp) && conflicts(x, lane, c.writer, mask, strong)) report(x, lane, want, c.writer, true);
  for (Stamp r : c.reader)
    if (conflicts(x, lane, r, mask, strong)) report(x, lane, want, r, false);
  if (c.writer.valid() && (c.writer.bits >> 5) == (now.bits >> 5)) now.bits |= c.writer.mask();
  c.writer = now;
  if (want.use == Use::kAtomic)
    c.atomic |= uint8_t(mask);
  else
    c.wrote |= uint8_t(mask);
}

} // namespace

void noteAccess(Lanes &x, int lane, Cell *cells, uint64_t offset, const Want &want, uint32_t generation,
                const std::byte *old) {
  uint32_t thread = x.warp.number * 32 + uint32_t(lane);
  uint64_t end = offset + want.size;
  for (uint64_t at = offset; at < end;) {
    uint64_t cellEnd = std::min((at | 3) + 1, end);
    uint32_t mask = ((1u << (cellEnd - at)) - 1) << (at & 3);
    Cell &c = cells[at >> 2];
    if (c.generation != generation) c = Cell{}, c.generation = generation;
    Stamp now = Stamp::make(x.block.linear, thread, x.warp.clock, want.strong || want.use == Use::kAtomic, mask);
    if (want.use == Use::kRead) {
      read(x, lane, c, now, want, mask);
    } else {
      bool same = want.value && std::memcmp(static_cast<const char *>(want.value) + (at - offset), old + (at - offset),
                                            cellEnd - at) == 0;
      write(x, lane, c, now, want, mask, same);
    }
    at = cellEnd;
  }
}

} // namespace opc::gpusim
