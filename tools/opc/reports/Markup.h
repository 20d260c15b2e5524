// Texts of files within SVG, HTML and DOT: names cannot end what they stand in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace opc::cli {

/// For text and for attribute values in double quotes, of SVG and HTML. Control characters are spelled.
std::string markupText(std::string_view text);
/// A string of DOT with its quotes, of so many lines.
std::string dotString(const std::vector<std::string> &lines);
/// At most `columns` characters, the last of them dots where something is lost.
std::string clipped(std::string_view text, size_t columns);

} // namespace opc::cli
