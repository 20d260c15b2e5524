// The words of a command line.
// SPDX-License-Identifier: Apache-2.0
#include "CommandWords.h"

#include <algorithm>
#include <utility>

namespace opc::cli {

Word wordOf(const std::vector<Option> &options, const std::string &arg) {
  Word word{arg, Word::Kind::kPositional, {}, false};
  if (arg.size() < 2 || arg[0] != '-') return word;
  word.kind = Word::Kind::kOption;
  const auto add = [&](const std::string &name) {
    const auto found = std::find_if(options.begin(), options.end(), [&](const Option &o) { return o.isCalled(name); });
    if (found != options.end()) word.options.push_back(&*found);
    return found != options.end();
  };
  if (arg[1] == '-') {
    const size_t equals = arg.find('=');
    word.takesNext = add(arg.substr(0, equals)) && word.options[0]->takesValue() && equals == std::string::npos;
    return word;
  }
  // "-qj1": flags, and at the end what takes a value.
  for (size_t i = 1; i < arg.size() && add({'-', arg[i]}); ++i) {
    if (!word.options.back()->takesValue()) continue;
    word.takesNext = i + 1 == arg.size();
    break;
  }
  return word;
}

std::vector<Word> wordsOf(const std::vector<Option> &options, const std::vector<std::string> &args) {
  std::vector<Word> words;
  bool isEnded = false;
  for (const std::string &arg : args) {
    const Word::Kind kind = isEnded                                    ? Word::Kind::kPositional
                            : !words.empty() && words.back().takesNext ? Word::Kind::kValue
                                                                       : Word::Kind::kEnd;
    if (kind != Word::Kind::kEnd)
      words.push_back({arg, kind, {}, false});
    else if (arg == "--")
      words.push_back({arg, kind, {}, false}), isEnded = true;
    else
      words.push_back(wordOf(options, arg));
  }
  return words;
}

std::vector<std::string> withoutOption(const std::vector<Option> &options, const std::vector<std::string> &args,
                                       const std::string &name) {
  std::vector<std::string> rest;
  bool isLeftOut = false; // the value that follows
  for (const Word &word : wordsOf(options, args)) {
    if (std::exchange(isLeftOut, false)) continue;
    const auto found =
        std::find_if(word.options.begin(), word.options.end(), [&](const Option *o) { return o->shown() == name; });
    if (found == word.options.end()) {
      rest.push_back(word.text);
      continue;
    }
    // Letters before it are other options.
    if (found != word.options.begin())
      rest.push_back(word.text.substr(0, 1 + static_cast<size_t>(found - word.options.begin())));
    isLeftOut = word.takesNext;
  }
  return rest;
}

} // namespace opc::cli
