// One lane's access to memory, with all its checks; and what a warp's accesses cost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Lanes.h"

namespace opc::gpusim {

enum class Use : uint8_t { kRead, kWrite, kAtomic };

struct Want {
  Space space = Space::kGeneric;
  uint64_t address = 0;
  uint32_t size = 0;
  Use use = Use::kRead;
  bool strong = false;         // volatile, relaxed, acquire, release
  const void *value = nullptr; // what is written, if that is known: equal values of one warp are no race
};

/// Where the bytes are; null after a finding that ends the launch. Space becomes what a generic address turned out to
/// be.
std::byte *reach(Lanes &x, int lane, Want &want);

/// Counts a request of the warp. Addresses of the lanes that took part, each of `size` bytes.
void countGlobal(LineCount &count, const uint64_t *addresses, uint32_t n, uint32_t size, bool write);
void countShared(LineCount &count, const uint64_t *addresses, uint32_t n, uint32_t size);

/// Marks shared bytes: 1 written, 2 a copy is on its way.
void markShared(Lanes &x, uint64_t offset, uint32_t size, uint8_t mark);
/// For copies that land: the write happens now.
void stampShared(Lanes &x, int lane, uint64_t offset, uint32_t size);

/// Of ld, st, atom: .global, .shared::cta, ...; generic without one.
Space spaceOf(const class Decoder &d);

} // namespace opc::gpusim
