// What protobuf says of a text that it cannot parse, made to point at the word and to say which one was meant.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"

#include <cstddef>
#include <string_view>

namespace opc {

/// The offset in `text` of a place of protobuf's, from 0: it counts a tab to the next multiple of eight.
size_t offsetOf(std::string_view text, int line, int column);

/// `found` has protobuf's message. `line` and `column` are protobuf's, from 0: where it stood, which may be behind the
/// word, and a tab is up to eight columns. Sets the range within `text`, and help where there is something to say.
void explainParseError(std::string_view text, int line, int column, Diagnostic *found);

} // namespace opc
