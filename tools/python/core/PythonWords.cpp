// Options as parameters.
// SPDX-License-Identifier: Apache-2.0
#include "PythonWords.h"

#include <string_view>
#include <utility>

namespace opc::python {
namespace {

/// What stands for something that Python says in another way; the first that fits counts.
constexpr std::pair<std::string_view, std::string_view> kPhrases[] = {
    {"give each with --input NAME=SPEC", "give each by its name: run(NAME=array)"},
    {"give it with --weights FILE, or write an initializer into its variable_conf",
     "set it (variables[NAME] = array), load it (load_weights), or give it an initializer (init=)"},
    {"opc run --ranks ", "give ranks="},
    {", mpirun -n ", ", with opc run and mpirun -n "},
    {"opc compile --mesh ", "compile(mesh=...) with the size "},
    {"--mesh ", "mesh= of the size "},
    {"leave --mesh and --ranks out", "leave mesh out"},
    {"--mode infer", "compile(train=False)"},
    {"opc compile --no-fuse", "compile(fuse=False)"},
    {"opc grad --accumulate ", "accumulate="},
    {"--micro-batches ", "micro_batches="},
    {"leave it out of --wrt", "leave it out of wrt"},
    {"with --wrt, for example --wrt x", "with wrt, for example wrt=[\"x\"]"},
    {"--plugin-overrides ", "opc.load_plugin, with overrides= before "},
    {"none (--plugin LIB loads one)", "none (opc.load_plugin loads one)"},
    {"--plugin LIB loads one", "opc.load_plugin loads one"},
    {"with --plugin FILE", "with opc.load_plugin"},
    {"load the plugin that has one with --plugin", "load the plugin that has one: opc.load_plugin"},
    {"(--lr X for another learning rate)", "(with opc run, --lr X sets another learning rate)"},
    {"go on with this one all the same: --other-graph", "go on with this one all the same: other_graph=True"},
    {"--batch N gives all of them one size", "the shapes of the graph give all of them one size"},
    {"use the same data and flags", "use the same data and parameters"},
    {"--trap nan,inf finds", "opc run --trap nan,inf finds"},
    {"--save-every N", "save_every="},
    {"--weights ", "weights="},
    {"--weights", "load_weights"},
    {"raise --max-memory", "raise max_memory"},
    {"--shape names ", "shapes names "},
    {"(--to shape)", "(opc compile --to shape)"},
    {", or --input ", ", or opc run --input "},
};

/// Whether the option at `at` is that of a command which the text says: "opc grad --explain NAME shows why".
bool isOfCommand(const std::string &text, size_t at) {
  const size_t clause = text.find_last_of(";,:(`", at);
  const size_t begin = clause == std::string::npos ? 0 : clause;
  const size_t command = text.find("opc ", begin);
  return command != std::string::npos && command < at;
}

void replacePhrases(std::string &text) {
  for (const auto &[from, to] : kPhrases)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
}

/// "--device-memory" as device_memory, "--shape x=2,3" as shapes.
void replaceOptions(std::string &text) {
  for (size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at + 2)) {
    size_t end = at + 2;
    while (end < text.size() && ((text[end] >= 'a' && text[end] <= 'z') || text[end] == '-')) ++end;
    const bool isOption =
        end > at + 3 && (at == 0 || text[at - 1] == ' ' || text[at - 1] == '(' || text[at - 1] == '\'');
    if (!isOption || isOfCommand(text, at)) continue;
    std::string name = text.substr(at + 2, end - at - 2);
    for (char &c : name)
      if (c == '-') c = '_';
    text.replace(at, end - at, name == "shape" ? "shapes" : name);
  }
}

} // namespace

std::string inPythonWords(std::string text) {
  if (text.find("--") == std::string::npos && text.find(" flags") == std::string::npos) return text;
  replacePhrases(text);
  replaceOptions(text);
  return text;
}

Status inPythonWords(const Status &status) {
  return Status(status.code(), status.id(), inPythonWords(status.message()))
      .withHelp(inPythonWords(status.help()))
      .withContext(status.context());
}

std::vector<Diagnostic> inPythonWords(std::vector<Diagnostic> found) {
  for (Diagnostic &d : found) {
    d.message = inPythonWords(std::move(d.message));
    d.help = inPythonWords(std::move(d.help));
    for (std::string &note : d.notes) note = inPythonWords(std::move(note));
  }
  return found;
}

} // namespace opc::python
