// Large values in mapped files, which are read once and need not stay in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

namespace opc {

/// Goes through bytes that may lie in a mapped file. The system may bring as much as 2 MiB around a byte that is read
/// into the process: what has been read goes again from time to time, and whatever came with it.
class ValuePages {
public:
  ValuePages() = default;
  /// `mapped`: of the file, what values may lie in; `owner` keeps it.
  explicit ValuePages(std::string_view mapped, std::shared_ptr<const void> owner = nullptr)
      : mapped_(mapped), owner_(std::move(owner)) {}

  /// f(piece) for pieces of the bytes, in order, until one is false.
  template <class F> bool forEach(std::string_view bytes, F &&f) {
    constexpr size_t kAround = 2 << 20, kPiece = 1 << 20, kMost = 4 << 20;
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
      const std::string_view piece = bytes.substr(at, kPiece);
      if (!f(piece)) return false;
      inMemory_ += piece.size() + (at == 0 ? kAround : 0);
      if (inMemory_ >= kMost) letGo();
    }
    return true;
  }
  /// No page need stay in memory: what is read again comes from the file.
  void letGo();
  void copy(std::string_view bytes, void *to) {
    char *at = static_cast<char *>(to);
    forEach(bytes, [&](std::string_view piece) {
      std::memcpy(at, piece.data(), piece.size());
      at += piece.size();
      return true;
    });
  }

private:
  std::string_view mapped_;
  std::shared_ptr<const void> owner_;
  size_t inMemory_ = 0;
};

/// Of tensors by name that say where their bytes are, who has them and whether they are mapped: by owner.
template <class Tensors> std::map<const void *, std::shared_ptr<ValuePages>> pagesOf(const Tensors &tensors) {
  std::map<const void *, std::shared_ptr<ValuePages>> pages;
  std::map<const void *, std::string_view> extents; // from the first tensor that lies in the file to the last one
  for (const auto &[name, tensor] : tensors) {
    auto &own = pages[tensor.owner.get()];
    if (!own) own = std::make_shared<ValuePages>();
    if (!tensor.isMapped || tensor.bytes.empty()) continue;
    std::string_view &extent = extents.try_emplace(tensor.owner.get(), tensor.bytes).first->second;
    const char *begin = std::min(extent.data(), tensor.bytes.data());
    const char *end = std::max(extent.data() + extent.size(), tensor.bytes.data() + tensor.bytes.size());
    extent = {begin, static_cast<size_t>(end - begin)};
    *own = ValuePages(extent, tensor.owner);
  }
  return pages;
}

} // namespace opc
