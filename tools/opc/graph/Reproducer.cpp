// The graph and the command as one file.
// SPDX-License-Identifier: Apache-2.0
#include "Reproducer.h"

#include "CommandWords.h"
#include "JsonOutput.h"
#include "OptionsOf.h"
#include "OutputFiles.h"
#include "opc/Version.h"

#include <utility>

namespace opc::cli {

namespace {

constexpr char kOption[] = "--reproducer";
constexpr char kByteOrderMark[] = "\xef\xbb\xbf";

/// The words after `opc`, with {} for the graph and without --reproducer.
Json commandOf(const Invocation &invocation, const std::string &graph) {
  Json words = Json::array();
  const std::vector<Option> options = optionsOf(invocation.commandLine());
  bool isNamed = false; // the command
  for (const Word &word : wordsOf(options, withoutOption(options, invocation.commandLine(), kOption))) {
    const bool isArgument = word.kind == Word::Kind::kPositional && std::exchange(isNamed, true);
    words.push_back(isArgument && word.text == graph ? "{}" : word.text);
  }
  return words;
}

std::string line(const char *key, const Json &value) {
  return std::string("# ") + key + ": " + value.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

} // namespace

Outcome<Reproducer> Reproducer::of(const std::string &path, const Invocation &invocation, const GraphInput &input,
                                   const Registry &registry, const CompileOptions &options) {
  Reproducer r;
  r.path_ = path;
  if (path.empty()) return r;
  if (!input.isModel) r.graph_ = input.bytes.text();
  if (input.isModel || r.graph_.find('\0') != std::string::npos) { // not text: a comment has no place before it
    CompileOptions alone;
    if (input.isModel) alone.shapes = options.shapes; // from which its ops follow
    Pipeline pipeline(registry, alone);
    if (!pipeline.import(input.name, input.bytes)) return failureOf(pipeline);
    r.graph_ = pipeline.emit(Emit::kGraphText);
    if (pipeline.errorCount()) return failureOf(pipeline);
  }
  if (r.graph_.rfind(kByteOrderMark, 0) == 0) r.graph_.erase(0, sizeof kByteOrderMark - 1);
  r.head_ = std::string(kReproducerTitle) + "\n" + line("command", commandOf(invocation, input.path)) +
            line("version", OPC_VERSION_STRING);
  for (const std::string &plugin : invocation.flags().plugins) r.head_ += line("plugin", plugin);
  return r;
}

Status Reproducer::write(const std::string &phase) const {
  if (path_.empty()) return Status::ok();
  return writeFileAtomically(path_, head_ + line("phase", phase) + graph_);
}

} // namespace opc::cli
