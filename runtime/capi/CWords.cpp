// Options as functions and fields of opc.h.
// SPDX-License-Identifier: Apache-2.0
#include "CWords.h"

#include "CommandOptions.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace opc::capi {
namespace {

/// Before options that opc.h has nothing for: opc_plan_compile_file compiles graphs as they are.
void nameCommands(std::string &text) {
  constexpr std::string_view kOfRuns[] = {"--input", "--fill", "--weights"};
  for (size_t from = 0; const auto option = nextBareOption(text, from); from = option->second) {
    const std::string_view name(text.data() + option->first, option->second - option->first);
    const bool isOfRun = std::find(std::begin(kOfRuns), std::end(kOfRuns), name) != std::end(kOfRuns);
    text.insert(option->first, isOfRun ? "opc run " : "opc compile ");
  }
}

} // namespace

std::string inCWords(std::string text) {
  /// The first that fits counts.
  static constexpr std::pair<std::string_view, std::string_view> kPhrases[] = {
      {"with Session::feed (--input NAME=SPEC)", "with opc_session_feed"},
      {"give it with Session::setVariable (--weights FILE)",
       "give it with opc_session_set_variable or opc_session_load_variables"},
      {"raise SessionOptions::maxMemory (--max-memory)", "raise max_memory of opc_session_options"},
      {"SessionOptions::maxMemory (--max-memory) sets", "max_memory of opc_session_options sets"},
      {"raise --max-memory", "raise max_memory of opc_session_options"},
      {"--max-memory sets", "max_memory of opc_session_options sets"},
      {"fewer threads (-j)", "fewer threads"},
      {"none (--plugin LIB loads one)", "none (opc_context_load_plugin loads one)"},
      {"--plugin LIB loads one", "opc_context_load_plugin loads one"},
      {"with --plugin FILE", "with opc_context_load_plugin"},
      {"load the plugin that has one with --plugin", "load the plugin that has one with opc_context_load_plugin"},
  };
  for (const auto &[from, to] : kPhrases)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  nameCommands(text);
  return text;
}

} // namespace opc::capi
