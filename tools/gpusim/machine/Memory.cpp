// Device memory: a reservation without access for addresses, mapped pages elsewhere for bytes and marks.
// SPDX-License-Identifier: Apache-2.0
#include "Memory.h"
#include "Shadow.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/mman.h>

namespace opc::gpusim {

namespace {

constexpr uint64_t kAlign = 512;
constexpr uint8_t kPoison = 0xb5;
// Between allocations, so that one past the end of one is not the first byte of the next.
constexpr uint64_t kGap = 512;

void *pages(uint64_t bytes, int protection) {
  void *p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}

void unmap(Memory::Range &r) {
  if (r.data) munmap(r.data, r.bytes);
  if (r.written) munmap(r.written, r.bytes);
  if (r.shadow) munmap(r.shadow, shadowBytes(r.bytes));
  r.data = nullptr, r.written = nullptr, r.shadow = nullptr;
}

} // namespace

Memory::Memory(uint64_t capacityBytes) : capacity_(capacityBytes) {
  // Room for the gaps and for what fragments.
  reserved_ = (capacityBytes + (capacityBytes >> 1) + (uint64_t(1) << 30)) & ~uint64_t(4095);
  reservation_ = reinterpret_cast<uint64_t>(pages(reserved_, PROT_NONE));
  if (!reservation_) reserved_ = 0;
}

Memory::~Memory() {
  for (auto &[base, range] : ranges_) unmap(range);
  if (reservation_) munmap(reinterpret_cast<void *>(reservation_), reserved_);
}

uint64_t Memory::allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > capacity_ || used_ + bytes > capacity_) return 0;
  uint64_t at = reservation_ + kAlign, need = (bytes + kAlign - 1) / kAlign * kAlign;
  for (const auto &[base, range] : ranges_) { // first fit
    if (at + need + kGap <= base) break;
    at = (base + range.bytes + kGap + kAlign - 1) / kAlign * kAlign;
  }
  if (at + need > reservation_ + reserved_) return 0;
  Range r;
  r.base = at, r.bytes = bytes;
  r.data = static_cast<std::byte *>(pages(bytes, PROT_READ | PROT_WRITE));
  r.written = static_cast<uint8_t *>(pages(bytes, PROT_READ | PROT_WRITE));
  if (!r.data || !r.written) {
    unmap(r);
    return 0;
  }
  std::memset(r.data, kPoison, bytes);
  used_ += bytes;
  ranges_.emplace(at, r);
  return at;
}

bool Memory::release(uint64_t address) {
  auto it = ranges_.find(address);
  if (it == ranges_.end()) return false;
  used_ -= it->second.bytes;
  unmap(it->second);
  ranges_.erase(it);
  return true;
}

const Memory::Range *Memory::find(uint64_t address) const {
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return nullptr;
  const Range &r = (--it)->second;
  return address - r.base < r.bytes ? &r : nullptr;
}

bool Memory::contains(uint64_t address, uint64_t bytes) const {
  const Range *r = find(address);
  return r && bytes <= r->bytes - (address - r->base);
}

std::string Memory::nearest(uint64_t address) const {
  auto above = ranges_.upper_bound(address);
  const Range *before = above == ranges_.begin() ? nullptr : &std::prev(above)->second;
  const Range *after = above == ranges_.end() ? nullptr : &above->second;
  auto name = [](const Range &r) {
    char text[80];
    std::snprintf(text, sizeof text, "the allocation of %llu bytes at 0x%llx", (unsigned long long)r.bytes,
                  (unsigned long long)r.base);
    return std::string(text);
  };
  uint64_t behind = before ? address - (before->base + before->bytes) : ~uint64_t(0);
  uint64_t ahead = after ? after->base - address : ~uint64_t(0);
  if (!before && !after) return "nothing is allocated";
  if (before && address - before->base < before->bytes) return "within " + name(*before);
  constexpr uint64_t kFirstPage = 4096; // nothing is ever there
  if (address == 0) return "which is a null pointer";
  if (address < kFirstPage) return std::to_string(address) + " bytes behind a null pointer";
  if (behind <= ahead) return std::to_string(behind) + " bytes behind the end of " + name(*before);
  return std::to_string(ahead) + " bytes before " + name(*after);
}

bool Memory::write(uint64_t address, const void *from, uint64_t bytes) {
  const Range *r = find(address);
  if (!r || bytes > r->bytes - (address - r->base)) return bytes == 0;
  std::memcpy(r->data + (address - r->base), from, bytes);
  std::memset(r->written + (address - r->base), 1, bytes);
  return true;
}

bool Memory::fill(uint64_t address, uint8_t value, uint64_t bytes) {
  const Range *r = find(address);
  if (!r || bytes > r->bytes - (address - r->base)) return bytes == 0;
  std::memset(r->data + (address - r->base), value, bytes);
  std::memset(r->written + (address - r->base), 1, bytes);
  return true;
}

bool Memory::read(void *to, uint64_t address, uint64_t bytes, uint64_t *unwritten) const {
  if (unwritten) *unwritten = ~uint64_t(0);
  const Range *r = find(address);
  if (!r || bytes > r->bytes - (address - r->base)) return bytes == 0;
  uint64_t at = address - r->base;
  std::memcpy(to, r->data + at, bytes);
  const void *gap = unwritten ? std::memchr(r->written + at, 0, bytes) : nullptr;
  if (!gap) return true;
  *unwritten = r->base + uint64_t(static_cast<const uint8_t *>(gap) - r->written);
  return false;
}

bool Memory::copy(Memory &to, uint64_t toAddress, const Memory &from, uint64_t fromAddress, uint64_t bytes) {
  const Range *d = to.find(toAddress), *s = from.find(fromAddress);
  if (!d || !s || bytes > d->bytes - (toAddress - d->base) || bytes > s->bytes - (fromAddress - s->base))
    return bytes == 0;
  std::memmove(d->data + (toAddress - d->base), s->data + (fromAddress - s->base), bytes);
  std::memmove(d->written + (toAddress - d->base), s->written + (fromAddress - s->base), bytes);
  return true;
}

void *Memory::shadow(uint64_t base) {
  auto it = ranges_.find(base);
  if (it == ranges_.end()) return nullptr;
  if (!it->second.shadow) it->second.shadow = pages(shadowBytes(it->second.bytes), PROT_READ | PROT_WRITE);
  return it->second.shadow;
}

bool Memory::forget(uint64_t address, uint64_t bytes) {
  const Range *r = find(address);
  if (!r || bytes > r->bytes - (address - r->base)) return bytes == 0;
  std::memset(r->data + (address - r->base), kPoison, bytes);
  std::memset(r->written + (address - r->base), 0, bytes);
  return true;
}

} // namespace opc::gpusim
