// The bytes of a file that several hold, mapped or in memory, and nobody copies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace opc {

class SharedBytes {
public:
  SharedBytes() = default;
  SharedBytes(std::string bytes) : text_(std::make_shared<std::string>(std::move(bytes))), view_(*text_) {}
  SharedBytes(const char *text) : SharedBytes(std::string(text)) {}
  /// Bytes that `owner` keeps. Mapped: the pages of a file, which may be let go.
  SharedBytes(std::string_view view, std::shared_ptr<const void> owner, bool isMapped)
      : view_(view), owner_(std::move(owner)), isMapped_(isMapped) {}

  std::string_view view() const { return view_; }
  operator std::string_view() const { return view_; }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  /// A copy.
  std::string text() const { return std::string(view_); }
  /// The bytes themselves where nobody else has them, else a copy; none remain here.
  std::string take() {
    std::string text = text_ && text_.use_count() == 1 ? std::move(*text_) : std::string(view_);
    *this = SharedBytes();
    return text;
  }
  std::shared_ptr<const void> owner() const { return text_ ? text_ : owner_; }
  bool isMapped() const { return isMapped_; }

private:
  std::shared_ptr<std::string> text_;
  std::string_view view_;
  std::shared_ptr<const void> owner_; // where it is no text
  bool isMapped_ = false;
};

} // namespace opc
