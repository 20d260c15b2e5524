// Texts of files made safe to show: what a terminal would obey, not print, becomes visible.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace opc {

/// `text` with its control characters spelled: "\x1b", "\x7f", "\u009b"; so are bytes that are no UTF-8, and the
/// characters that change the direction of what follows or begin a line. Newlines and tabs stay.
std::string printableText(std::string_view text);

/// The same of a name, which is one line: newlines and tabs are "\n" and "\t".
std::string printableName(std::string_view name);

/// A JSON document with those characters as JSON spells them ("\u009b"): it stays the same document.
std::string printableJson(std::string_view document);

} // namespace opc
