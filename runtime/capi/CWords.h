// Texts that name options of the command line, in the words of opc.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace opc::capi {

/// "raise SessionOptions::maxMemory (--max-memory)" as "raise max_memory of opc_session_options". What only the command
/// can do keeps its option, behind the command's name.
std::string inCWords(std::string text);

} // namespace opc::capi
