// Rows of text in aligned columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace opc::cli {

/// Columns aligned, two blanks between; cells beyond 48 characters do not widen their column. With a `width` no line is
/// longer: the widest columns lose the ends of their cells.
std::string textTable(const std::vector<std::vector<std::string>> &rows, size_t width = 0);

/// The width that a table on standard output, or on standard error, is to fit: that of the terminal, or COLUMNS; else
/// 0, and what reads it gets all of it.
size_t outTableWidth();
size_t errTableWidth();

/// `text` with blanks behind it (`padded`) or in front (`rightAligned`) up to `width` columns.
std::string padded(std::string text, size_t width);
std::string rightAligned(const std::string &text, size_t width);

} // namespace opc::cli
