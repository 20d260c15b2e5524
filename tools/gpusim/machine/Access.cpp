// From an address to bytes: windows, alignment, bounds, what was never written, races.
// SPDX-License-Identifier: Apache-2.0
#include "Access.h"
#include "Decoder.h"
#include "Races.h"

#include <algorithm>
#include <cstdio>

namespace opc::gpusim {

namespace {

std::string hex(uint64_t v) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", (unsigned long long)v);
  return text;
}
const char *verb(Use use) { return use == Use::kRead ? "reads " : use == Use::kWrite ? "writes " : "changes "; }
std::string what(const Want &w) { return verb(w.use) + std::to_string(w.size) + " bytes at "; }

/// Whether all `size` marks are 1.
bool allWritten(const uint8_t *marks, uint32_t size) {
  auto are = [&](auto ones, uint32_t at) {
    decltype(ones) v;
    std::memcpy(&v, marks + at, sizeof v);
    return v == ones;
  };
  switch (size) {
  case 1: return *marks == 1;
  case 2: return are(uint16_t(0x0101), 0);
  case 4: return are(uint32_t(0x01010101), 0);
  case 8: return are(uint64_t(0x0101010101010101), 0);
  default:
    for (uint32_t at = 0; at < size; at += 8)
      if (!are(uint64_t(0x0101010101010101), at)) return false;
    return true;
  }
}

void markWritten(uint8_t *marks, uint32_t size) {
  switch (size) {
  case 4: std::memset(marks, 1, 4); break;
  case 8: std::memset(marks, 1, 8); break;
  case 16: std::memset(marks, 1, 16); break;
  default: std::memset(marks, 1, size);
  }
}

void unwritten(Lanes &x, int lane, const Want &w, const uint8_t *marks, const std::string &where) {
  uint32_t first = 0;
  while (first < w.size && marks[first] == 1) ++first;
  const char *why =
      marks[first] == 2 ? " that cp.async is still copying: a wait for it is missing" : " that nobody has written";
  x.find(lane, "unwritten", kCudaLaunchFailed,
         what(w) + where + ", of which byte " + std::to_string(first) + " is one" + why, false);
}

std::byte *global(Lanes &x, int lane, Want &w) {
  RangeState *&recent = x.frame->recent[x.pc];
  if (!recent || w.address - recent->range->base >= recent->range->bytes) recent = x.run.range(w.address);
  const RangeState *state = recent;
  if (!state || w.size > state->range->bytes - (w.address - state->range->base)) {
    std::string where = state ? std::to_string(w.address + w.size - state->range->base - state->range->bytes) +
                                    " bytes of it behind the end of the allocation of " +
                                    std::to_string(state->range->bytes) + " bytes at " + hex(state->range->base)
                              : x.run.memory.nearest(w.address);
    x.find(lane, "out of bounds", kCudaIllegalAddress, what(w) + "global address " + hex(w.address) + ", " + where);
    return nullptr;
  }
  uint64_t offset = w.address - state->range->base;
  if (state->constant && w.use != Use::kRead) {
    x.find(lane, "read-only", kCudaIllegalAddress,
           what(w) + "address " + hex(w.address) + ", which is constant memory");
    return nullptr;
  }
  uint8_t *marks = state->range->written + offset;
  if (w.use != Use::kWrite && !allWritten(marks, w.size))
    unwritten(x, lane, w, marks,
              "global address " + hex(w.address) + " (offset " + std::to_string(offset) + " of an allocation of " +
                  std::to_string(state->range->bytes) + ")");
  std::byte *data = state->range->data + offset;
  if (!state->constant) {
    recent->touched[offset >> 12] = 1;
    if ((offset + w.size - 1) >> 12 != offset >> 12) recent->touched[(offset + w.size - 1) >> 12] = 1;
    noteAccess(x, lane, state->cells, offset, w, x.run.generation, data);
  }
  if (w.use != Use::kRead) markWritten(marks, w.size);
  return data;
}

std::byte *shared(Lanes &x, int lane, Want &w) {
  uint64_t bytes = x.block.shared.size();
  if (w.address >= bytes || w.size > bytes - w.address) {
    x.find(lane, "out of bounds", kCudaIllegalAddress,
           what(w) + "shared address " + hex(w.address) + "; the block has " + std::to_string(bytes) +
               " bytes of shared memory");
    return nullptr;
  }
  uint8_t *marks = x.block.sharedWritten.data() + w.address;
  if (w.use != Use::kWrite && !allWritten(marks, w.size))
    unwritten(x, lane, w, marks, "shared address " + hex(w.address));
  else if (w.use == Use::kWrite && std::find(marks, marks + w.size, 2) != marks + w.size)
    x.find(lane, "race", kCudaLaunchFailed,
           what(w) + "shared address " + hex(w.address) +
               ", where cp.async is still copying to: what is there in the end is either; a wait for it is missing",
           false);
  std::byte *data = reinterpret_cast<std::byte *>(x.block.shared.data()) + w.address;
  noteAccess(x, lane, x.block.sharedCells.data(), w.address, w, x.block.generation, data);
  if (w.use != Use::kRead) markWritten(marks, w.size);
  return data;
}

std::byte *local(Lanes &x, int lane, Want &w) {
  uint64_t top = x.frame->localBase + uint64_t(x.program->function->localBytes);
  if (w.address >= top || w.size > top - w.address) {
    x.find(lane, "out of bounds", kCudaIllegalAddress,
           what(w) + "local address " + hex(w.address) + "; the thread has " + std::to_string(top) + " bytes there");
    return nullptr;
  }
  uint64_t at = uint64_t(lane) * x.warp.localCapacity + w.address;
  uint8_t *marks = x.warp.localWritten.data() + at;
  // Structures are copied with their padding: only what is wholly unwritten is an error.
  if (w.use != Use::kWrite && std::all_of(marks, marks + w.size, [](uint8_t m) { return m == 0; }))
    unwritten(x, lane, w, marks, "local address " + hex(w.address));
  if (w.use != Use::kRead) markWritten(marks, w.size);
  return reinterpret_cast<std::byte *>(x.warp.local.data()) + at;
}

std::byte *parameter(Lanes &x, int lane, Want &w) {
  uint64_t bytes = x.run.kernel->paramBytes;
  if (w.use != Use::kRead || w.address >= bytes || w.size > bytes - w.address) {
    x.find(lane, w.use == Use::kRead ? "out of bounds" : "read-only", kCudaIllegalAddress,
           what(w) + "offset " + hex(w.address) + " of the kernel's " + std::to_string(bytes) + " bytes of parameters");
    return nullptr;
  }
  return const_cast<std::byte *>(static_cast<const std::byte *>(x.run.launch.params)) + w.address;
}

} // namespace

std::byte *reach(Lanes &x, int lane, Want &w) {
  if (w.space == Space::kGeneric || w.space == Space::kGlobal) {
    uint64_t window = w.address & kWindowMask;
    if (w.space == Space::kGeneric && window) {
      w.address &= ~kWindowMask;
      w.space = window == kSharedWindow  ? Space::kShared
                : window == kLocalWindow ? Space::kLocal
                : window == kParamWindow ? Space::kParam
                                         : Space::kGlobal;
      if (w.space == Space::kGlobal) w.address |= window;
    } else {
      w.space = Space::kGlobal;
    }
  }
  if (w.address & (w.size - 1)) {
    x.find(lane, "misaligned", kCudaMisalignedAddress,
           what(w) + "address " + hex(w.address) + ", which is no multiple of " + std::to_string(w.size));
    return nullptr;
  }
  switch (w.space) {
  case Space::kShared: return shared(x, lane, w);
  case Space::kLocal: return local(x, lane, w);
  case Space::kParam: return parameter(x, lane, w);
  default: return global(x, lane, w);
  }
}

void markShared(Lanes &x, uint64_t offset, uint32_t size, uint8_t mark) {
  std::memset(x.block.sharedWritten.data() + offset, mark, size);
}

void stampShared(Lanes &x, int lane, uint64_t offset, uint32_t size) {
  Want w;
  w.space = Space::kShared, w.address = offset, w.size = size, w.use = Use::kWrite;
  noteAccess(x, lane, x.block.sharedCells.data(), offset, w, x.block.generation, nullptr);
}

void countGlobal(LineCount &count, const uint64_t *addresses, uint32_t n, uint32_t size, bool write) {
  if (n == 0) return;
  ++count.requests;
  (write ? count.bytesWritten : count.bytesRead) += uint64_t(n) * size;
  uint64_t sorted[32];
  const uint64_t *a = addresses;
  if (!std::is_sorted(addresses, addresses + n)) {
    std::copy(addresses, addresses + n, sorted);
    std::sort(sorted, sorted + n);
    a = sorted;
  }
  uint64_t sectors = 0, last = ~uint64_t(0), distinct = 0, end = 0;
  for (uint32_t i = 0; i < n; ++i) {
    for (uint64_t s = a[i] >> 5; s <= (a[i] + size - 1) >> 5; ++s)
      if (s != last) ++sectors, last = s;
    if (a[i] >= end) distinct += size;
    end = a[i] + size;
  }
  count.sectors += sectors;
  count.idealSectors += (distinct + 31) / 32;
}

void countShared(LineCount &count, const uint64_t *addresses, uint32_t n, uint32_t size) {
  if (n == 0) return;
  ++count.sharedRequests;
  // Accesses of 8 and 16 bytes go in halves and quarters of the warp.
  uint32_t phase = size <= 4 ? 32 : size == 8 ? 16 : 8, words = std::max(1u, size / 4);
  for (uint32_t from = 0; from < n; from += phase) {
    uint32_t to = std::min(n, from + phase);
    if (words == 1) { // most often each bank is wanted once, or all lanes want one word
      uint32_t banks = 0, same = 0;
      for (uint32_t i = from; i < to; ++i) {
        uint32_t bit = 1u << (addresses[i] >> 2 & 31);
        same += addresses[i] >> 2 == addresses[from] >> 2;
        banks |= bit;
      }
      if (same == to - from || uint32_t(std::popcount(banks)) == to - from) {
        ++count.wavefronts, ++count.idealWavefronts;
        continue;
      }
    }
    uint64_t seen[32][32]; // words of each bank
    uint32_t used[32] = {}, most = 1;
    for (uint32_t i = from; i < to; ++i)
      for (uint32_t k = 0; k < words; ++k) {
        uint64_t word = (addresses[i] >> 2) + k;
        uint32_t bank = word & 31;
        if (std::find(seen[bank], seen[bank] + used[bank], word) != seen[bank] + used[bank]) continue;
        seen[bank][used[bank]++] = word;
        most = std::max(most, used[bank]);
      }
    count.wavefronts += most;
    ++count.idealWavefronts;
  }
}

Space spaceOf(const Decoder &d) {
  if (d.has("shared::cluster")) d.unsupported("clusters");
  if (d.has("global")) return Space::kGlobal;
  if (d.hasPrefix("shared")) return Space::kShared;
  if (d.has("local")) return Space::kLocal;
  if (d.has("const")) return Space::kConst;
  if (d.hasPrefix("param")) return Space::kParam;
  return Space::kGeneric;
}

} // namespace opc::gpusim
