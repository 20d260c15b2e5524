// Device memory as kernels see it: addresses that a host cannot follow, bytes that know whether they were written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace opc::gpusim {

/// One device's global memory. Addresses lie in a reservation without access, so that a host that follows a device
/// pointer gets SIGSEGV; the bytes are elsewhere. Not safe for several threads at once.
class Memory {
public:
  explicit Memory(uint64_t capacityBytes);
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  struct Range {
    uint64_t base = 0, bytes = 0;
    std::byte *data = nullptr;
    uint8_t *written = nullptr; // a byte a byte: 0 never, 1 yes
    void *shadow = nullptr;     // the race checker's, mapped when a kernel first touches the range
  };

  /// Aligned to 512 bytes, filled with 0xb5, unwritten. 0: out of memory.
  uint64_t allocate(uint64_t bytes);
  /// False when no allocation starts at the address.
  bool release(uint64_t address);
  /// The allocation that holds the address, or null.
  const Range *find(uint64_t address) const;
  /// Whether [address, address + bytes) lies in one allocation.
  bool contains(uint64_t address, uint64_t bytes) const;
  /// "37 bytes behind the allocation of 4096 bytes at 0x..", for an address in no allocation.
  std::string nearest(uint64_t address) const;

  /// Host to device; marks as written. False: not within one allocation.
  bool write(uint64_t address, const void *from, uint64_t bytes);
  bool fill(uint64_t address, uint8_t value, uint64_t bytes);
  /// Device to host. False: not within one allocation, or `unwritten` (if given) is the first byte that was never
  /// written; those are copied all the same, as the poison that they are. ~0: all were written.
  bool read(void *to, uint64_t address, uint64_t bytes, uint64_t *unwritten = nullptr) const;
  /// Device to device, within this memory or from another; carries the marks along.
  static bool copy(Memory &to, uint64_t toAddress, const Memory &from, uint64_t fromAddress, uint64_t bytes);
  /// The race checker's cells of an allocation, mapped when they are first wanted. Null: no such allocation.
  void *shadow(uint64_t base);
  /// The end of a lifetime: poison again, and unwritten.
  bool forget(uint64_t address, uint64_t bytes);

  uint64_t capacity() const { return capacity_; }
  uint64_t used() const { return used_; }
  const std::map<uint64_t, Range> &ranges() const { return ranges_; } // by base

private:
  uint64_t capacity_ = 0, used_ = 0, reservation_ = 0, reserved_ = 0;
  std::map<uint64_t, Range> ranges_;
};

} // namespace opc::gpusim
