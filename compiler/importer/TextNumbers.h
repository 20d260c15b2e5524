// Numbers of a text that are larger than every number of their fields' types: protobuf reads them as infinity.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

namespace opc {

/// `message` is what protobuf made of `text`, the file `name`. For each number in digits that became an infinity there
/// is an error with its place; where one is found the answer is false. `inf` is a number that was meant.
bool checkNumbers(const std::string &name, std::string_view text, const google::protobuf::Message &message,
                  std::vector<Diagnostic> *diagnostics);

} // namespace opc
