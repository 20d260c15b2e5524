// The bytes of a file that are not all in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ValuePages.h"
#include "opc/Status.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace opc {

/// Some in memory, and values that are read where they lie, each time anew.
class FilePieces {
public:
  FilePieces() = default;
  explicit FilePieces(std::string bytes) { add(std::move(bytes)); }

  void add(std::string bytes);
  /// `pages` of the file that has them, or null; `owner` keeps them.
  void add(std::string_view bytes, std::shared_ptr<ValuePages> pages, std::shared_ptr<const void> owner);
  void add(const FilePieces &more);

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::string text() const;
  /// sink(bytes) for all of them, in order. Errors: the sink's first.
  Status write(const std::function<Status(std::string_view)> &sink) const;

private:
  struct Piece {
    std::string_view bytes;
    std::shared_ptr<ValuePages> pages; // not null
    std::shared_ptr<const void> owner;
  };
  template <class F> bool forEach(F f) const;
  std::vector<Piece> pieces_;
  uint64_t size_ = 0;
};

} // namespace opc
