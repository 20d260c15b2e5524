// Options as parameters.
// SPDX-License-Identifier: Apache-2.0
#include "PythonWords.h"

#include "CommandOptions.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace opc::python {
namespace {

/// What stands for something that Python says in another way; the first that fits counts.
constexpr std::pair<std::string_view, std::string_view> kPhrases[] = {
    {"give each with Session::feed (--input NAME=SPEC)", "give each by its name: run(NAME=array)"},
    {"give each with --input NAME=SPEC", "give each by its name: run(NAME=array)"},
    {"give it with Session::setVariable (--weights FILE), or write an initializer into its variable_conf",
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
    {"import the model with it: --const ", "load the model with it, consts= of opc.load: "},
    {"--weights ", "weights="},
    {"--weights", "load_weights"},
    {"raise SessionOptions::maxMemory (--max-memory)", "raise max_memory"},
    {"SessionOptions::maxMemory (--max-memory) sets", "max_memory sets"},
    {"raise --max-memory", "raise max_memory"},
    {"--shape names ", "shapes names "},
    {"(--to shape)", "(opc compile --to shape)"},
    {", or --input ", ", or opc run --input "},
};

void replacePhrases(std::string &text) {
  for (const auto &[from, to] : kPhrases)
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
}

/// What a word like "x=2,3" behind an option is in a dictionary, `"x": (2, 3)`; nothing for other words.
std::string entryOf(const std::string &word, bool isShape) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return "";
  std::string value = word.substr(equals + 1);
  if (isShape) {
    const bool isOne = value.find(',') == std::string::npos;
    for (size_t at = value.find(','); at != std::string::npos; at = value.find(',', at + 2)) value.insert(at + 1, " ");
    value = "(" + value + (isOne ? ",)" : ")");
  }
  return '"' + word.substr(0, equals) + "\": " + value;
}

/// Where a word of an option's value ends that begins at `at`.
size_t endOfWord(const std::string &text, size_t at) {
  size_t end = text.find_first_of(" \n;)", at);
  if (end == std::string::npos) end = text.size();
  while (end > at && (text[end - 1] == ',' || text[end - 1] == '.')) --end;
  return end;
}

/// The options that are dictionaries in Python.
constexpr std::pair<std::string_view, std::string_view> kDictionaries[] = {
    {"shape", "shapes"}, {"dim", "dims"}, {"const", "consts"}};

/// "--dim n=4 --dim m=5" at `at`, whose option ends at `end`, as dims={"n": 4, "m": 5}.
void replaceDictionary(std::string &text, size_t at, size_t end, std::string_view name) {
  const std::string option = text.substr(at, end - at);
  std::string entries;
  size_t behind = end;
  while (text.compare(behind, 1, " ") == 0) {
    const size_t wordEnd = endOfWord(text, behind + 1);
    const std::string entry = entryOf(text.substr(behind + 1, wordEnd - behind - 1), option == "--shape");
    if (entry.empty()) break;
    entries += (entries.empty() ? "" : ", ") + entry;
    behind = wordEnd;
    if (text.compare(behind, option.size() + 2, " " + option + " ") != 0) break;
    behind += option.size() + 1;
  }
  text.replace(at, (entries.empty() ? end : behind) - at,
               std::string(name) + (entries.empty() ? "" : "={" + entries + "}"));
}

/// "--device-memory" as device_memory, "--shape x=2,3" as shapes={"x": (2, 3)}.
void replaceOptions(std::string &text) {
  for (size_t from = 0; const auto option = nextBareOption(text, from); from = option->first + 2) {
    const auto [at, end] = *option;
    std::string name = text.substr(at + 2, end - at - 2);
    const auto *dictionary = std::find_if(std::begin(kDictionaries), std::end(kDictionaries),
                                          [&](const auto &d) { return d.first == name; });
    if (dictionary != std::end(kDictionaries)) {
      replaceDictionary(text, at, end, dictionary->second);
      continue;
    }
    std::replace(name.begin(), name.end(), '-', '_');
    text.replace(at, end - at, name);
  }
}

/// The lines of a graph file that would bind an input: in Python it is given to the op.
void replaceBinding(std::string &text) {
  constexpr std::string_view before = "add input { key: \"", behind = "\" value { s: \"OP/out_0\" } }";
  const size_t at = text.find(before), end = text.find(behind, at);
  if (at == std::string::npos || end == std::string::npos) return;
  const size_t name = at + before.size();
  text = text.substr(0, at) + "give it a tensor: " + text.substr(name, end - name) + "=..." +
         text.substr(end + behind.size());
}

} // namespace

std::string inPythonWords(std::string text) {
  replaceBinding(text);
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
