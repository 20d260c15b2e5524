// The bytes of a file that are not all in memory.
// SPDX-License-Identifier: Apache-2.0
#include "FilePieces.h"

#include <utility>

namespace opc {

void FilePieces::add(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  add(*owner, nullptr, owner);
}

void FilePieces::add(std::string_view bytes, std::shared_ptr<ValuePages> pages, std::shared_ptr<const void> owner) {
  if (bytes.empty()) return;
  size_ += bytes.size();
  pieces_.push_back({bytes, pages ? std::move(pages) : std::make_shared<ValuePages>(), std::move(owner)});
}

void FilePieces::add(const FilePieces &more) {
  size_ += more.size_;
  pieces_.insert(pieces_.end(), more.pieces_.begin(), more.pieces_.end());
}

template <class F> bool FilePieces::forEach(F f) const {
  for (const Piece &piece : pieces_)
    if (!piece.pages->forEach(piece.bytes, f)) return false;
  return true;
}

std::string FilePieces::text() const {
  std::string text;
  text.reserve(static_cast<size_t>(size_));
  forEach([&](std::string_view bytes) {
    text += bytes;
    return true;
  });
  return text;
}

Status FilePieces::write(const std::function<Status(std::string_view)> &sink) const {
  Status status;
  forEach([&](std::string_view bytes) {
    status = sink(bytes);
    return status.isOk();
  });
  return status;
}

} // namespace opc
