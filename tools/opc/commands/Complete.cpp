// What may stand at the cursor: from the commands' own options, and from the graph on the command line.
// SPDX-License-Identifier: Apache-2.0
#include "CommandList.h"

#include "Config.h"
#include "ErrorCatalog.h"
#include "GraphInput.h"
#include "GraphValues.h"
#include "Lock.h"
#include "NumberText.h"
#include "PlanInput.h"
#include "PrintableText.h"
#include "Rules.h"
#include "TextParts.h"
#include "TrainingFlags.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

constexpr uintmax_t kMaxGraphBytes = 64 << 20; // a key press waits for it

class Completer {
public:
  explicit Completer(const std::vector<std::string> &words) : words_(words) {}

  std::string run() {
    if (words_.empty()) return "";
    const std::string current = words_.back();
    const std::vector<std::string> before(words_.begin(), words_.end() - 1);
    const std::vector<Option> shared = shared_.options();
    const size_t at = firstPositional(shared, before);
    const Option *open = nullptr; // the option that waits for its value
    if (at == before.size()) {
      if ((open = waiting(shared, before))) return value(*open, current, ""), text_;
      if (!current.empty() && current[0] == '-') {
        optionNames(shared, current);
        add("--version", current, "the version");
        return text_;
      }
      for (const CommandEntry &c : commandList())
        if (!c.hidden) add(c.name, current, c.summary);
      return text_;
    }
    const CommandEntry *entry = findCommand(before[at]);
    if (!entry) return "";
    command_ = entry->name;
    const std::unique_ptr<Command> command = entry->make();
    std::vector<Option> options = command->spec().options;
    options.insert(options.end(), shared.begin(), shared.end());
    std::vector<std::string> rest(before.begin() + static_cast<ptrdiff_t>(at) + 1, before.end());
    positional_ = positionals(options, rest);
    if ((open = waiting(options, rest))) return value(*open, current, ""), text_;
    const size_t equals = current.find('=');
    if (current.rfind("--", 0) == 0 && equals != std::string::npos) {
      optionNames(options, current);
      for (const Option &o : options)
        if (o.takesValue() && current.substr(0, equals) == o.name)
          value(o, current.substr(equals + 1), current.substr(0, equals + 1));
      return text_;
    }
    if (!current.empty() && current[0] == '-' && current != "-")
      optionNames(options, current);
    else
      argument(current);
    return text_;
  }

private:
  void add(const std::string &candidate, const std::string &current, const std::string &doc = "",
           const std::string &head = "") {
    if (candidate.compare(0, current.size(), current) != 0) return;
    if (candidate != printableName(candidate)) return; // names of a graph may hold anything
    std::string line = doc.substr(0, doc.find('\n'));
    if (line.size() > 60) line = line.substr(0, line.rfind(' ', 57)) + " ...";
    text_ += head + candidate + (line.empty() ? "" : "\t" + line) + "\n";
  }

  void optionNames(const std::vector<Option> &options, const std::string &current) {
    for (const Option &o : options)
      if (!o.name.empty() && o.hasJoinedValue())
        joinedValues(o, current);
      else if (!o.name.empty())
        add(o.name, current, o.doc);
      else if (o.letter && current.size() <= 2)
        add(std::string("-") + o.letter, current, o.doc);
  }

  /// "--stats" and "--stats=json"; "[=SECTION,...]" names no word.
  void joinedValues(const Option &o, const std::string &current) {
    add(o.name, current, o.doc);
    std::vector<std::string> words = o.choices;
    const std::string word = o.value.substr(2, o.value.size() - 3);
    if (o.name == "--update")
      for (LockSection s : lockSections()) words.push_back(lockSectionName(s));
    if (words.empty() && word.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos) words = {word};
    const size_t done = std::max(current.rfind(','), o.name.size()); // a list goes on behind its last comma
    const std::string head =
        done == std::string::npos || done >= current.size() ? o.name + "=" : current.substr(0, done + 1);
    for (const std::string &w : words) add(head + w, current, o.doc);
  }

  static const Option *waiting(const std::vector<Option> &options, const std::vector<std::string> &before) {
    if (before.empty()) return nullptr;
    for (const Option &o : options)
      if (o.takesValue() && o.isCalled(before.back())) return &o;
    return nullptr;
  }

  static std::vector<std::string> positionals(const std::vector<Option> &options, std::vector<std::string> rest) {
    std::vector<std::string> found;
    for (;;) {
      const size_t at = firstPositional(options, rest);
      if (at >= rest.size()) return found;
      found.push_back(rest[at]);
      rest.erase(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(at) + 1);
    }
  }

  /// "auto|plain|N" gives auto and plain; nothing when the label is not a list of words.
  static std::vector<std::string> choices(const std::string &label) {
    if (label.find('|') == std::string::npos) return {};
    std::vector<std::string> list = splitAt(label, '|');
    std::erase_if(list, [](const std::string &word) {
      return word.empty() || word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string::npos;
    });
    return list;
  }

  void value(const Option &o, const std::string &current, const std::string &head) {
    const std::string &label = o.value;
    const bool outputs = o.name == "--output" || o.name == "--expect" || o.name == "--rtol" || o.name == "--atol" ||
                         o.name == "--metric";
    if (const auto words = o.choices.empty() ? choices(label) : o.choices; !words.empty()) {
      // Of a list, what follows the last comma is completed.
      const size_t comma = std::holds_alternative<TextReader>(o.target) ? current.rfind(',') : std::string::npos;
      const std::string done = comma == std::string::npos ? "" : current.substr(0, comma + 1);
      for (const std::string &w : words) add(w, current.substr(done.size()), "", head + done);
    } else if (label == "RULE" || label == "GLOB:RULE") {
      const size_t colon = label == "RULE" ? std::string::npos : current.rfind(':');
      const std::string done = colon == std::string::npos ? "" : current.substr(0, colon + 1);
      if (label == "GLOB:RULE" && done.empty()) return;
      for (const Rule &rule : allRules()) add(rule.name, current.substr(done.size()), rule.doc, head + done);
    } else if (o.name == "--optimizer" || o.name == "--schedule") {
      for (const std::string &name : o.name == "--optimizer" ? optimizerNames() : scheduleNames())
        add(name, current, "", head);
    } else if (o.name == "--loss") {
      for (const GraphTensor &t : graph().outputs) add(t.name, current, type(t), head);
      for (const GraphOp &op : graph().ops) add(op.name, current, op.type, head);
    } else if (o.name == "--wrt" || o.name == "--explain" || o.name == "--no-decay") {
      for (const auto *list : {&graph().variables, &graph().inputs})
        for (const GraphTensor &t : *list) add(t.name, current, type(t), head);
    } else if (label == "PHASE") {
      for (Phase p : allPhases()) add(phaseName(p), current, phaseDoc(p), head);
      if (o.name == "--to") add("help", current, "list the phases", head);
    } else if (o.name == "--op" || o.name == "--around") {
      for (const auto *list : {&graph().inputs, &graph().variables, &graph().outputs})
        for (const GraphTensor &t : *list) add(t.name, current, type(t), head);
      for (const GraphOp &op : graph().ops) add(op.name, current, op.type, head);
    } else if (o.name == "--paths") {
      const size_t dots = current.find("..");
      const std::string done = dots == std::string::npos ? "" : current.substr(0, dots + 2);
      for (const std::string &name : nodeNames())
        add(name + (done.empty() ? ".." : ""), current.substr(done.size()), "", head + done);
    } else if (label == "GLOB=TYPE" || label == "GLOB=DEVICE") {
      const size_t equals = current.rfind('=');
      if (equals == std::string::npos)
        for (const GraphOp &op : graph().ops) add(op.name + "=", current, op.type, head);
      else
        for (const std::string &word : label == "GLOB=TYPE" ? std::vector<std::string>{"f16", "bf16", "f32", "f64"}
                                                            : std::vector<std::string>{"cpu"})
          add(word, current.substr(equals + 1), "", head + current.substr(0, equals + 1));
    } else if (o.name == "--only") {
      for (const GraphOp &op : graph().ops) add(op.name, current, op.type, head);
    } else if (label.rfind("TENSOR", 0) == 0 || label.rfind("GLOB=", 0) == 0) {
      if (current.find('=') != std::string::npos) return path(current, head, label == "TENSOR=SPEC");
      const std::string tail = label == "TENSOR" ? "" : "=";
      for (const GraphOp &op : graph().ops)
        for (const GraphTensor &t : op.outputs) add(t.tensor + tail, current, op.type + " " + type(t), head);
    } else if (label.rfind("NAME=", 0) == 0 || label.rfind("[NAME:]", 0) == 0) {
      if (current.find('=') != std::string::npos && label[0] == 'N') return path(current, head, label == "NAME=SPEC");
      const std::string tail = label[0] == 'N' ? "=" : ":";
      const GraphFacts &info = graph();
      for (const auto *list : {outputs ? &info.outputs : &info.inputs, outputs ? nullptr : &info.variables})
        if (list)
          for (const GraphTensor &t : *list) add(t.name + tail, current, type(t), head);
    } else if (label.find("FILE") != std::string::npos || label.find("DIR") != std::string::npos || label == "LIB" ||
               label == "CLUSTER") {
      if (head.empty())
        text_ += ":file\n";
      else
        path(current, head, false);
    }
  }

  std::vector<std::string> nodeNames() {
    std::vector<std::string> names;
    for (const auto *list : {&graph().inputs, &graph().variables, &graph().outputs})
      for (const GraphTensor &t : *list) names.push_back(t.name);
    for (const GraphOp &op : graph().ops) names.push_back(op.name);
    return names;
  }

  std::set<std::string> scheduleNames() {
    const auto *op = registry() ? registry_->findOp("learning_rate_schedule") : nullptr;
    if (!op) return {};
    const std::vector<std::string> names = TrainingFlags::schedules(*op);
    return {names.begin(), names.end()};
  }
  static std::set<std::string> optimizerNames() {
    const std::vector<std::string> names = TrainingFlags::optimizers();
    return {names.begin(), names.end()};
  }

  static std::string type(const GraphTensor &t) { return typeText(t.dtype, t.shape); }

  /// "x=@dir/fi" or "fc*=di": the paths that the part after the last '=' or '@' may become.
  void path(const std::string &current, const std::string &head, bool spec) {
    const size_t sign = current.find_last_of("=@");
    const std::string before = sign == std::string::npos ? "" : current.substr(0, sign + 1);
    const std::string partial = current.substr(before.size());
    const size_t slash = partial.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : partial.substr(0, slash + 1);
    std::error_code error;
    std::vector<std::string> found;
    for (fs::directory_iterator it(folder.empty() ? "." : folder, error), end; !error && it != end;
         it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (name[0] == '.' && partial.size() == folder.size()) continue;
      found.push_back(folder + name + (it->is_directory(error) ? "/" : ""));
      if (found.size() > 10000) break;
    }
    std::sort(found.begin(), found.end());
    // "x=": in a SPEC a file is what follows an '@'; numbers are not known.
    const std::string mark = spec && partial.empty() && !before.empty() && before.back() == '=' ? "@" : "";
    for (const std::string &f : found) add(before + mark + f, before + mark + partial, "", head);
  }

  void argument(const std::string &current) {
    if (command_ == "explain") {
      for (const ErrorTopic &t : allTopics()) add(t.name, current, t.title);
    } else if (command_ == "ops") {
      if (positional_.empty()) add("show", current, "the page of one operator");
      if (const Registry *r = registry())
        for (const auto *op : r->ops()) add(op->name, current, op->doc);
    } else if (command_ == "verify") {
      if (const Registry *r = registry())
        for (const auto *op : r->ops()) add(op->name, current, op->doc);
    } else if (command_ == "help") {
      for (const CommandEntry &c : commandList())
        if (!c.hidden && positional_.empty()) add(c.name, current, c.summary);
    } else if (command_ == "completion") {
      for (const char *shell : {"bash", "zsh", "fish"}) add(shell, current);
    } else if (command_ == "cache") {
      if (positional_.empty())
        for (const char *what : {"list", "clear"}) add(what, current);
    } else if (command_ == "config") {
      for (const ConfigKey &k : configKeys()) add(k.name, current, k.doc);
    } else if (command_ == "debug" && positional_.empty()) {
      for (const char *mode : {"first-diff", "reduce", "replay"}) add(mode, current);
    } else if (command_ == "plugin" && positional_.empty()) {
      add("check", current, "load a library and say what it registers");
    } else if (command_ != "doctor" && command_ != "sdk" && command_ != "version") {
      text_ += ":file\n";
    }
  }

  const Registry *registry() {
    if (!registry_) {
      registry_ = std::make_unique<Registry>();
      if (!registry_->addLinked()) return nullptr;
      registry_->freeze();
    }
    return registry_.get();
  }

  /// The graph or plan that the command line names; empty when there is none that can be read.
  const GraphFacts &graph() {
    if (read_ || positional_.empty() || !registry()) return info_;
    read_ = true;
    std::error_code error;
    const std::string &path = positional_[0];
    if (!fs::is_regular_file(path, error) || fs::file_size(path, error) > kMaxGraphBytes) return info_;
    Result<GraphInput> input = readGraphInput(path);
    if (!input) return info_;
    if (input->isPlan) {
      if (Result<GraphFacts> plan = factsOfPlan(input->bytes, *registry_)) info_ = std::move(*plan);
      return info_;
    }
    Pipeline pipeline(*registry_, {});
    if (!pipeline.import(input->name, std::move(input->bytes))) return info_;
    info_ = pipeline.facts();
    if (!hasOpenInputs(info_) && pipeline.run(Phase::kShape)) info_ = pipeline.facts();
    return info_;
  }

  const std::vector<std::string> &words_;
  SharedFlags shared_;
  std::string command_, text_;
  std::vector<std::string> positional_;
  std::unique_ptr<Registry> registry_;
  GraphFacts info_;
  bool read_ = false;
};

} // namespace

std::string completionsText(const std::vector<std::string> &words) { return Completer(words).run(); }

std::string completionsOfLine(const std::string &line) {
  // The shell's rules as far as a line that is being typed needs them: blanks part words, quotes and backslashes keep
  // them together, and a quote may still be open.
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool inWord = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote) {
      if (c == quote)
        quote = 0;
      else if (c == '\\' && quote == '"' && i + 1 < line.size())
        word += line[++i];
      else
        word += c;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (inWord) words.push_back(word);
      word.clear();
      inWord = false;
      continue;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '\\' && i + 1 < line.size()) {
      word += line[++i];
    } else {
      word += c;
    }
    inWord = true;
  }
  words.push_back(word);
  words.erase(words.begin()); // the program
  return completionsText(words);
}

} // namespace opc::cli
