// The words of a command line: which are options, which are their values, which are arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Option.h"

#include <string>
#include <vector>

namespace opc::cli {

/// An argument of a command line as it is read.
struct Word {
  enum class Kind { kOption, kValue, kPositional, kEnd }; // kEnd: "--", behind which all are positional
  std::string text;
  Kind kind = Kind::kPositional;
  std::vector<const Option *> options; // that it names: "-qj1" two; none that `options` does not have
  bool takesNext = false;              // the next argument is the value of the last one
};
/// The words of `args`. Pointers are into `options`.
std::vector<Word> wordsOf(const std::vector<Option> &options, const std::vector<std::string> &args);
/// `args` without an option and its values, however they are written: "-C DIR", "-CDIR", "-qC DIR". `name`: as
/// Option::shown() has it.
std::vector<std::string> withoutOption(const std::vector<Option> &options, const std::vector<std::string> &args,
                                       const std::string &name);
/// What one argument is, whatever stands before it.
Word wordOf(const std::vector<Option> &options, const std::string &arg);

} // namespace opc::cli
