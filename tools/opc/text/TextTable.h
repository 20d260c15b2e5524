// Rows of text in aligned columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace opc::cli {

/// Columns aligned, two blanks between; cells beyond 48 characters do not widen their column.
std::string textTable(const std::vector<std::vector<std::string>> &rows);

/// `text` with blanks behind it (`padded`) or in front (`rightAligned`) up to `width` columns.
std::string padded(std::string text, size_t width);
std::string rightAligned(const std::string &text, size_t width);

} // namespace opc::cli
