// Texts put together from parts: lists with separators, counts with their nouns, numbers among words.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace opc {

/// The parts one after the other; integers as decimal numbers.
template <class... Parts> std::string concat(const Parts &...parts) {
  std::string text;
  const auto add = [&text]<class Part>(const Part &part) {
    static_assert(!std::same_as<Part, bool> && !std::floating_point<Part>, "say how it is to be written");
    if constexpr (std::integral<Part> && !std::same_as<Part, char>)
      text += std::to_string(part);
    else
      text += part;
  };
  (add(parts), ...);
  return text;
}

/// textOf(element) of each element of a list, with `separator` between them.
template <class List, class TextOf>
std::string joined(const List &list, std::string_view separator, const TextOf &textOf) {
  std::string text, between;
  for (const auto &element : list) {
    text += between;
    text += textOf(element);
    between = separator;
  }
  return text;
}
/// The elements of a list of texts or integers, with `separator` between them.
template <class List> std::string joined(const List &list, std::string_view separator) {
  return joined(list, separator, [](const auto &element) { return concat(element); });
}

/// The parts of `text` between separators: one more than there are separators, empty ones too.
inline std::vector<std::string> splitAt(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

/// The member `name` of each element of a list.
template <class List> std::vector<std::string> namesOf(const List &list) {
  std::vector<std::string> names;
  for (const auto &element : list) names.push_back(element.name);
  return names;
}

/// "1 op", "2 ops", "0 ops".
inline std::string counted(std::integral auto n, std::string_view noun) {
  return concat(n, ' ', noun, n == 1 ? "" : "s");
}

} // namespace opc
