// The command of a bundle, made harmless.
// SPDX-License-Identifier: Apache-2.0
#include "ReplayCommand.h"

#include "CommandLine.h"
#include "CommandList.h"
#include "CrashRecord.h"

#include <algorithm>
#include <set>

namespace opc::cli {

namespace {

const std::set<std::string> kWritten = {"--output",  "--outputs", "--dump",    "--calibrate",  "--simulate-trace",
                                        "--capture", "--trace",   "--metrics", "--save",       "--capture-stats",
                                        "--plot",    "--report",  "--log",     "--reproducer", "--weights-out"};
const std::set<std::string> kRead = {"--simulate",  "--cluster",        "--input",   "--inputs",       "--weights",
                                     "--expect",    "--expects",        "--feed",    "--feed-dataset", "--resume",
                                     "--validate",  "--validate-graph", "--against", "--baseline",     "-C",
                                     "--placement", "--from-file",      "--const",   "--calibrate"};
// What names a program to start.
const std::set<std::string> kRefused = {"--check", "--launcher"};
// With these locks and values beside graphs are written or removed.
const std::set<std::string> kBeside = {"--update", "--unreferenced"};
// Code, and settings, which name code; what is passed to LLVM, whose options write files.
const std::set<std::string> kDropped = {"--plugin", "--plugin-overrides", "--op-path", "--config",
                                        "--mlir",   "--trust-config"};
// Words that a value's label has when the value names a file or a program.
const char *const kFileWords[] = {"FILE",    "DIR", "LIB",  "PATH",    "PLAN", "GRAPH",
                                  "COMMAND", "CMD", "SPEC", "CLUSTER", "REV"};
const std::string kGraph = "{}", kOutput = "--output=";

Status refused(const std::string &what, const std::string &help = "") {
  return Status(StatusCode::kUsage, "OPC0751", what).withHelp(help);
}

/// Absolute, or with a step up: at its beginning, or behind what stands before paths in values.
bool leadsOutside(const std::string &value) {
  const std::string before = "=@,:";
  for (size_t at = 0; at < value.size(); ++at) {
    const bool begins = at == 0 || before.find(value[at - 1]) != std::string::npos;
    if (begins && value[at] == '/') return true;
    const bool isPart = begins || value[at - 1] == '/';
    if (isPart && value.compare(at, 2, "..") == 0 && (at + 2 == value.size() || value[at + 2] == '/')) return true;
  }
  return false;
}

class Harmless {
public:
  Harmless(const std::string &scratch, bool hasGraph, bool anyFile)
      : scratch_(scratch), hasGraph_(hasGraph), anyFile_(anyFile) {}

  Result<ReplayCommand> make(const std::vector<std::string> &words) {
    SharedFlags flags;
    options_ = flags.options();
    const size_t at = firstPositional(options_, words);
    if (at >= words.size()) return refused("the bundle's command names no subcommand");
    const CommandEntry *entry = isReplayedCommand(words) ? findCommand(words[at]) : nullptr;
    if (!entry)
      return refused("'opc " + words[at] + "' is not run again",
                     "replayed are commands that do nothing but with graphs");
    command_ = entry->make();
    for (Option &o : command_->spec().options) own_.push_back(std::move(o));
    result_.words.push_back(words[at]);
    for (size_t i = 0; i < words.size(); ++i) {
      if (i == at) continue;
      if (words[i] == "--") {
        result_.words.emplace_back("--");
        for (++i; i < words.size(); ++i) OPC_RETURN_IF_ERROR(addPositional(words[i]));
        break;
      }
      OPC_RETURN_IF_ERROR(words[i].size() > 1 && words[i][0] == '-' ? addOption(words, &i) : addPositional(words[i]));
    }
    OPC_RETURN_IF_ERROR(keepBesideOwn());
    nameOutput();
    return std::move(result_);
  }

private:
  const Option *find(const std::string &name) const {
    for (const std::vector<Option> *list : {&own_, &options_})
      for (const Option &o : *list)
        if (o.isCalled(name)) return &o;
    return nullptr;
  }

  Status addPositional(const std::string &word) {
    if (word != kGraph) {
      OPC_RETURN_IF_ERROR(mayRead(word, word));
      others_.push_back(result_.words.size());
    }
    result_.words.push_back(word);
    return Status::ok();
  }

  /// What is written beside graphs is written beside the bundle's alone.
  Status keepBesideOwn() {
    if (!writesBeside_) return Status::ok();
    for (auto other = others_.rbegin(); other != others_.rend(); ++other)
      result_.words.erase(result_.words.begin() + static_cast<ptrdiff_t>(*other));
    const bool isNamed = std::find(result_.words.begin(), result_.words.end(), kGraph) != result_.words.end();
    if (isNamed && hasGraph_) return Status::ok();
    return refused("the bundle's command writes beside graphs that are not in the bundle");
  }

  /// Without an -o opc compile writes to the working directory.
  void nameOutput() {
    const auto isNamed = [](const std::string &word) { return word.compare(0, kOutput.size(), kOutput) == 0; };
    if (result_.words.front() == "compile" && std::none_of(result_.words.begin(), result_.words.end(), isNamed))
      result_.words.insert(result_.words.begin() + 1, kOutput + scratch_ + "/written");
  }

  Status mayRead(const std::string &value, const std::string &shown) const {
    if (anyFile_ || !leadsOutside(value)) return Status::ok();
    return refused("the bundle's command reads outside of the working directory: " + shown,
                   "look at bundle.json; --any-file allows it");
  }

  Status addOption(const std::vector<std::string> &words, size_t *at) {
    const std::string &word = words[*at];
    if (word[1] != '-') return addLetters(words, at);
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Option *option = find(name);
    if (!option) return refused("the bundle's command has an option that this opc does not know: " + word);
    writesBeside_ |= kBeside.count(name) > 0;
    if (!option->takesValue()) {
      (kDropped.count(name) ? result_.dropped : result_.words).push_back(word);
      return Status::ok();
    }
    if (equals != std::string::npos) return addValue(*option, word.substr(equals + 1));
    return addNext(*option, words, at);
  }

  /// "-qj1": flags, and at the end what takes a value.
  Status addLetters(const std::vector<std::string> &words, size_t *at) {
    const std::string &word = words[*at];
    for (size_t i = 1; i < word.size(); ++i) {
      const std::string name = {'-', word[i]};
      const Option *option = find(name);
      if (!option) return refused("the bundle's command has an option that this opc does not know: " + word);
      if (option->takesValue())
        return i + 1 < word.size() ? addValue(*option, word.substr(i + 1)) : addNext(*option, words, at);
      result_.words.push_back(name);
    }
    return Status::ok();
  }

  Status addNext(const Option &option, const std::vector<std::string> &words, size_t *at) {
    if (++*at < words.size()) return addValue(option, words[*at]);
    return refused("the bundle's command ends behind " + option.shown());
  }

  Status addValue(const Option &option, const std::string &value) {
    const std::string name = option.shown();
    if (kDropped.count(name)) {
      result_.dropped.push_back(name + " " + value);
      return Status::ok();
    }
    if (kRefused.count(name)) return refused("the bundle's command has an option that is not replayed: " + name);
    const bool isFile = std::any_of(std::begin(kFileWords), std::end(kFileWords),
                                    [&](const char *word) { return option.value.find(word) != std::string::npos; });
    // What opc compile measures is written, and what opc quantize measures with is read.
    const bool isExample = name == "--calibrate" && result_.words.front() == "quantize";
    if (kWritten.count(name) && !isExample) {
      push(option, value == "-" ? value : redirected(option, value));
    } else if (kRead.count(name) || !isFile) {
      OPC_RETURN_IF_ERROR(mayRead(value, name + " " + value));
      push(option, value);
    } else {
      return refused("the bundle's command has an option that is not replayed: " + name);
    }
    return Status::ok();
  }

  /// "KEY=FILE" keeps its key, and a file its ending, which says what it is.
  std::string redirected(const Option &option, const std::string &value) {
    const bool hasKey = option.value.find('=') != std::string::npos;
    const size_t equals = hasKey ? value.find('=') : std::string::npos;
    const std::string key = equals == std::string::npos ? "" : value.substr(0, equals + 1);
    const std::string path = value.substr(key.size());
    std::string ending = path.substr(std::min(path.find_last_of("./"), path.size()));
    if (ending.empty() || ending[0] != '.' || ending.size() > 16) ending.clear();
    return key + scratch_ + "/written" + std::to_string(++written_) + ending;
  }

  void push(const Option &option, const std::string &value) {
    if (option.name.empty()) {
      result_.words.push_back(std::string("-") + option.letter);
      result_.words.push_back(value);
    } else {
      result_.words.push_back(option.name + "=" + value);
    }
  }

  const std::string &scratch_;
  const bool hasGraph_, anyFile_;
  std::unique_ptr<Command> command_;
  std::vector<Option> options_, own_;
  ReplayCommand result_;
  std::vector<size_t> others_; // of the words: files that are not the bundle's graph
  bool writesBeside_ = false;
  int written_ = 0;
};

} // namespace

Result<ReplayCommand> replayCommand(const std::vector<std::string> &words, const std::string &scratch, bool hasGraph,
                                    bool anyFile) {
  return Harmless(scratch, hasGraph, anyFile).make(words);
}

} // namespace opc::cli
