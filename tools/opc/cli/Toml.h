// The part of TOML that opc.toml needs: tables, dotted and quoted keys, strings, numbers, booleans, arrays, inline
// tables, comments. What TOML has beyond that (dates, multi-line strings, arrays of tables) is refused by name.
// Grammar: https://toml.io/en/v1.0.0
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace opc::cli {

/// A value with its place. A table is a list of entries in the order of the file.
struct TomlValue {
  struct Entry;
  using Array = std::vector<TomlValue>;
  struct Table {
    std::vector<Entry> entries;
    const TomlValue *find(const std::string &key) const;
  };
  std::variant<bool, int64_t, double, std::string, Array, Table> value;
  int line = 0, column = 0;

  const Table *table() const { return std::get_if<Table>(&value); }
  /// "a string", "an integer", ... for messages.
  const char *kind() const;
};
struct TomlValue::Entry {
  std::string key;
  TomlValue value;
};

/// `name` stands in errors: "opc.toml:4:9: ...". Errors: OPC0008.
Result<TomlValue> parseToml(std::string_view text, const std::string &name);

} // namespace opc::cli
