// Command lines: parsing by CLI11, help text. The one file that sees CLI11.
// SPDX-License-Identifier: Apache-2.0
#include "CommandLine.h"

#include "CommandWords.h"
#include "ExitCodes.h"
#include "NearestNames.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>

namespace opc::cli {

namespace {

std::string label(const Option &o) {
  std::string text = o.letter ? std::string("-") + o.letter : "";
  if (!o.name.empty()) text += (text.empty() ? "" : ", ") + o.name;
  if (o.hasJoinedValue()) return text + o.value;
  return o.value.empty() ? text : text + " " + o.value;
}

/// The results of one option while CLI11 collects them.
struct Slot {
  const Option *option = nullptr;
  std::vector<std::string> values;
  CLI::Option *handle = nullptr;
};

Status store(const Slot &slot, ParsedArguments *parsed) {
  parsed->given.insert(slot.option->shown());
  const size_t count = slot.handle->count();
  return slot.option->set(slot.values.size() < count ? std::vector<std::string>(count) : slot.values);
}

std::string optionList(const std::vector<Option> &options, bool full, int width) {
  std::string text;
  size_t column = 0;
  for (const Option &o : options)
    if (full || o.brief) column = std::max(column, label(o).size());
  column = std::min<size_t>(column, 26) + 4;
  // A narrow terminal gets the description below the option.
  const bool below = width < 60;
  for (const Option &o : options) {
    if (!full && !o.brief) continue;
    std::string head = "  " + label(o);
    const int indent = below ? 6 : static_cast<int>(column);
    std::string body = wrapText(o.doc, indent, width);
    if (!below && head.size() + 2 <= column) {
      head.resize(column, ' ');
      text += head + (o.doc.empty() ? "\n" : body.substr(column));
    } else {
      text += head + "\n" + body;
    }
  }
  return text;
}

/// Whether the next argument belongs to `arg`.
bool consumesNext(const std::vector<Option> &options, const std::string &arg) { return wordOf(options, arg).takesNext; }

/// The index of "--", or the number of arguments.
size_t endOfOptions(const std::vector<Option> &options, const std::vector<std::string> &args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--") return i;
    if (consumesNext(options, args[i])) ++i;
  }
  return args.size();
}

/// A flag with a value, "--json=yes", of which CLI11 would speak in words of its own.
Status checkFlags(const std::vector<Option> &options, const std::vector<std::string> &args, size_t end, bool hasAll) {
  for (size_t i = 0; i < end; ++i) {
    if (consumesNext(options, args[i])) {
      ++i;
      continue;
    }
    const size_t equals = args[i].find('=');
    if (equals == std::string::npos) continue;
    const std::string name = args[i].substr(0, equals), value = args[i].substr(equals + 1);
    for (const Option &o : options) {
      if (o.name.empty() || o.name != name || !o.value.empty()) continue;
      if (name == "--help" && hasAll)
        return usageError("--help takes nothing, or =all, not '" + value + "'",
                          didYouMean(value, {"all"}, "--help=all is the help of every command"));
      return usageError(name + " takes no value, and '" + args[i] + "' gives one", "give " + name + " alone");
    }
  }
  return Status::ok();
}

} // namespace

size_t firstPositional(const std::vector<Option> &options, const std::vector<std::string> &args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].size() < 2 || args[i][0] != '-') return i;
    if (consumesNext(options, args[i])) ++i;
  }
  return args.size();
}

Result<ParsedArguments> parseArguments(const CommandSpec &spec, const std::vector<Option> &commonOptions,
                                       const std::vector<std::string> &args) {
  CLI::App app;
  app.set_help_flag("");
  app.allow_extras();
  ParsedArguments parsed;
  std::vector<Option> all = spec.options;
  for (const Option &o : commonOptions) {
    const bool isHelp = o.letter == 'h' || o.name == "--help"; // listed for the help text alone
    const bool own =
        std::any_of(all.begin(), all.end(), [&](const Option &c) { return !o.name.empty() && c.name == o.name; });
    if (!own && !isHelp) all.push_back(o);
  }
  all.push_back({"", 'h', "", "", &parsed.shortHelp});
  all.push_back({"--help", 0, "", "", &parsed.fullHelp});

  std::vector<Slot> slots(all.size());
  std::vector<std::string> names;
  for (size_t i = 0; i < all.size(); ++i) {
    const Option &o = all[i];
    std::string cliName = o.letter ? std::string("-") + o.letter : "";
    if (!o.name.empty()) cliName += (cliName.empty() ? "" : ",") + o.name;
    slots[i].option = &o;
    if (o.takesValue())
      slots[i].handle = app.add_option(cliName, slots[i].values)
                            ->expected(1)
                            ->allow_extra_args(false)
                            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    else if (o.hasJoinedValue())
      slots[i].handle = app.add_flag(cliName, slots[i].values)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    else
      slots[i].handle =
          app.add_flag(cliName)->disable_flag_override()->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (!o.name.empty()) names.push_back(o.name);
  }
  CLI::Option *positional = app.add_option("arguments", parsed.positional)->allow_extra_args(false);
  positional->expected(0, 1 << 20)->allow_extra_args(false);

  // What follows "--" is positional, whatever it looks like.
  const size_t end = endOfOptions(all, args);
  const bool hasAll = std::any_of(commonOptions.begin(), commonOptions.end(),
                                  [](const Option &o) { return o.name == "--help" && o.hasJoinedValue(); });
  OPC_RETURN_IF_ERROR(checkFlags(all, args, end, hasAll));
  try {
    std::vector<std::string> reversed(args.rend() - static_cast<ptrdiff_t>(end), args.rend());
    app.parse(reversed);
  } catch (const CLI::ArgumentMismatch &e) {
    const std::string last = args.empty() ? "" : args.back();
    for (const Option &o : all)
      if (o.isCalled(last)) return usageError(last + " needs a value: " + o.value, spec.called() + " --help");
    return usageError(e.what(), spec.called() + " --help");
  } catch (const CLI::ParseError &e) {
    return usageError(e.what(), spec.called() + " --help");
  }
  if (parsed.shortHelp = slots[all.size() - 2].handle->count() > 0; parsed.shortHelp) return parsed;
  if (parsed.fullHelp = slots[all.size() - 1].handle->count() > 0; parsed.fullHelp) return parsed;

  for (const std::string &extra : app.remaining()) {
    const std::string name = extra.substr(0, extra.find('='));
    if (name.size() > 1 && name[0] == '-') {
      const std::vector<std::string> near = nearestNames(name, names, 1);
      return usageError("unknown option '" + name + "'",
                        near.empty() ? spec.called() + " --help lists the options" : "did you mean " + near[0] + "?");
    }
    parsed.positional.push_back(extra);
  }
  if (end < args.size())
    parsed.positional.insert(parsed.positional.end(), args.begin() + static_cast<ptrdiff_t>(end) + 1, args.end());
  for (const Slot &slot : slots)
    if (slot.handle->count() > 0) OPC_RETURN_IF_ERROR(store(slot, &parsed));
  if (parsed.positional.size() < spec.minArguments)
    return usageError(spec.called() + " needs " + spec.arguments, spec.called() + " -h");
  if (parsed.positional.size() > spec.maxArguments)
    return usageError("too many arguments for " + spec.called() + ": '" + parsed.positional[spec.maxArguments] + "'",
                      "usage: " + spec.called() + " " + spec.arguments);
  return parsed;
}

std::string wrapText(const std::string &text, int indent, int width) {
  const size_t room = static_cast<size_t>(std::max(width - indent, 10));
  const std::string margin(static_cast<size_t>(indent), ' ');
  std::string result;
  size_t start = 0;
  while (start <= text.size()) {
    size_t end = text.find('\n', start);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(start, end - start);
    start = end + 1;
    if (line.empty() || line[0] == ' ') {
      result += line.empty() ? "\n" : margin + line + "\n";
      continue;
    }
    size_t used = 0, word = 0;
    result += margin;
    while (word < line.size()) {
      size_t stop = line.find(' ', word);
      if (stop == std::string::npos) stop = line.size();
      const size_t length = stop - word;
      if (used && used + 1 + length > room) {
        result += "\n" + margin;
        used = 0;
      }
      if (used) result += " ", ++used;
      result += line.substr(word, length);
      used += length;
      word = stop + 1;
    }
    result += "\n";
  }
  return result;
}

std::string helpText(const CommandSpec &spec, const std::vector<Option> &commonOptions, bool full, int width) {
  std::string text = wrapText(spec.called() + ": " + spec.summary, 0, width) + "\n";
  for (size_t i = 0; i < spec.examples.size(); ++i)
    if (full || i < 2) text += "  " + spec.examples[i] + "\n";
  text += "\nusage: " + spec.called() + (spec.arguments.empty() ? "" : " " + spec.arguments) + " [options]\n";
  const bool any =
      std::any_of(spec.options.begin(), spec.options.end(), [&](const Option &o) { return full || o.brief; });
  if (any) text += "\noptions:\n" + optionList(spec.options, full, width);
  if (full) {
    if (!commonOptions.empty()) text += "\ncommon options:\n" + optionList(commonOptions, true, width);
    if (!spec.details.empty()) text += "\n" + wrapText(spec.details, 0, width);
    std::string codes;
    for (const ExitMeaning &m : kExitMeanings)
      codes += (codes.empty() ? "exit codes: " : ", ") + std::to_string(m.code) + " " + m.meaning;
    text += "\n" + wrapText(codes + " (opc explain exit-codes)", 0, width);
  } else {
    text += "\n" + wrapText(spec.called() + " --help says everything", 0, width);
  }
  return text;
}

std::string shellQuoted(const std::string &arg) {
  const std::string safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=/.,:@%";
  if (!arg.empty() && arg.find_first_not_of(safe) == std::string::npos) return arg;
  std::string text = "'";
  for (char c : arg) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

} // namespace opc::cli
