// Memory of tensors between guards, which show what a kernel writes beside them, and what it reads there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace opc {

/// A copy of a tensor that begins at a cache line, with bytes of a pattern before and right behind it, or of a value.
class GuardedMemory {
public:
  /// What there is in place of the pattern.
  struct Fill {
    std::optional<unsigned char> before, behind;
  };
  /// `number`: no two tensors that a kernel sees have the same, so that what it copies from one guard to another shows.
  GuardedMemory(size_t bytes, size_t number, Fill fill)
      : bytes_(bytes), number_(number), fill_(fill), lines_(2 * kGuardLines + bytes / sizeof(Line) + 1) {
    for (size_t i = 0; i < size(); ++i) begin()[i] = pattern(i);
  }
  void *data() { return begin() + kGuardBytes; }
  /// "writes up to 8 bytes behind it", or "before it"; "" when the guards are as they were.
  std::string damage() const {
    size_t last = 0, first = 0;
    for (size_t i = kGuardBytes; i-- > 0;)
      if (!isWhole(i)) first = kGuardBytes - i;
    if (first) return "writes up to " + bytesText(first) + " before it";
    for (size_t i = kGuardBytes + bytes_; i < size(); ++i)
      if (!isWhole(i)) last = i + 1 - kGuardBytes - bytes_;
    return last ? "writes up to " + bytesText(last) + " behind it" : "";
  }

private:
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  static constexpr size_t kGuardLines = 256, kGuardBytes = kGuardLines * sizeof(Line);
  /// No two neighbours are equal, and no four bytes a usual number.
  unsigned char pattern(size_t i) const {
    const std::optional<unsigned char> &byte = i < kGuardBytes ? fill_.before : fill_.behind;
    return byte ? *byte : static_cast<unsigned char>(0xA7 ^ ((i + 7 * number_) * 29));
  }
  static std::string bytesText(size_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }
  bool isWhole(size_t i) const { return begin()[i] == pattern(i); }
  size_t size() const { return lines_.size() * sizeof(Line); }
  unsigned char *begin() { return reinterpret_cast<unsigned char *>(lines_.data()); }
  const unsigned char *begin() const { return reinterpret_cast<const unsigned char *>(lines_.data()); }
  size_t bytes_, number_;
  Fill fill_;
  std::vector<Line> lines_;
};

} // namespace opc
