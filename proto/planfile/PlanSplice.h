// The values of variables in the bytes of a plan's message: put in and taken out without a copy of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opc {

/// Where a variable stands in a message: the part, or -1 in a plan without parts, and its number there.
struct VariablePlace {
  int part = -1;
  int index = 0;
};

/// A message in pieces: views of what it is made of, and of `lengths`.
struct SplicedMessage {
  struct Piece {
    std::string_view bytes;
    std::optional<VariablePlace> valueOf; // the piece is a value that was put in
  };
  std::vector<Piece> pieces;
  std::list<std::string> lengths; // of the fields around values
  uint64_t size = 0;
};

/// What a variable's data in the message is replaced by; nothing: it stays.
using SpliceValue = std::function<std::optional<std::string_view>(VariablePlace, std::string_view data)>;

/// `message`, a plan's, with other values. Nothing for bytes that are not as this program writes them: of these alone
/// is it certain that they mean the same afterwards.
std::optional<SplicedMessage> spliceValues(std::string_view message, const SpliceValue &value);

} // namespace opc
