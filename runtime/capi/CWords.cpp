// Options as functions and fields of opc.h.
// SPDX-License-Identifier: Apache-2.0
#include "CWords.h"

#include <string_view>
#include <utility>

namespace opc::capi {

std::string inCWords(std::string text) {
  /// The first that fits counts.
  static constexpr std::pair<std::string_view, std::string_view> kPhrases[] = {
      {"with --input NAME=SPEC", "with opc_session_feed"},
      {"give it with --weights FILE", "give it with opc_session_set_variable or opc_session_load_variables"},
      {"raise --max-memory", "raise max_memory of opc_session_options"},
      {"--max-memory sets", "max_memory of opc_session_options sets"},
      {"fewer threads (-j)", "fewer threads"},
      {"none (--plugin LIB loads one)", "none (opc_context_load_plugin loads one)"},
      {"--plugin LIB loads one", "opc_context_load_plugin loads one"},
      {"with --plugin FILE", "with opc_context_load_plugin"},
      {"load the plugin that has one with --plugin", "load the plugin that has one with opc_context_load_plugin"},
      {"for a larger range: --shape ", "for a larger range: opc compile --shape "},
      {"for known shapes: --shape ", "for known shapes: opc compile --shape "},
  };
  for (const auto &[from, to] : kPhrases)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

} // namespace opc::capi
