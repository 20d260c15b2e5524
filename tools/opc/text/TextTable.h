// Rows of text in aligned columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace opc::cli {

/// Columns aligned, two blanks between; cells beyond 48 characters do not widen their column.
std::string textTable(const std::vector<std::vector<std::string>> &rows);

} // namespace opc::cli
