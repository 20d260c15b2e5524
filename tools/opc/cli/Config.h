// The configuration: flags > OPC_* of the environment > nearest opc.toml > $XDG_CONFIG_HOME/opc/config.toml > defaults.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CommandLine.h"
#include "opc/Status.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

/// A setting: where it may come from and which option it stands for.
struct ConfigKey {
  enum class Kind { kText, kInteger, kSize, kSwitch, kList };
  const char *name;        // "run.seed"
  const char *option;      // "--seed", or "-j"
  const char *environment; // "OPC_SEED"
  Kind kind;
  const char *standard; // the default, for people
  const char *doc;
  bool isPath = false; // relative to the file that says it
  char joins = 0;      // a table's entries become "key:value" for ':'
};
const std::vector<ConfigKey> &configKeys();

struct ConfigValue {
  const ConfigKey *key = nullptr;
  std::vector<std::string> values; // one, but for kList
  std::string origin;              // "default", "OPC_SEED", "opc.toml:4"
  std::vector<std::string> places; // of each value, when files say them: "opc.toml:5"
  std::string folder;              // of the opc.toml that the search has found, when that says it
  bool isDefault() const { return origin == "default"; }
};

/// A line of [tolerance]: an element type or a glob of output names, and what it changes.
struct ToleranceRule {
  std::string key;
  std::optional<double> rtol, atol;
  std::string metric; // empty: none
  std::optional<bool> nanEqual;
  std::string origin;
  std::string folder; // of the project's file; empty: another file says it
};

class Config {
public:
  /// The defaults.
  Config();
  /// Finds and reads the files. `directory` is -C's (empty: the working directory), `file` is --config's: a path,
  /// "none", or empty for the search. Plugins are code: a file outside of the directory's project (projectOf()) that
  /// the search finds names them in vain. Errors: OPC0008 with file, line and column, also for a file that distrustOf()
  /// has something against; OPC0706.
  static Result<Config> load(const std::string &directory, const std::string &file);

  /// Every key in the order of configKeys().
  const std::vector<ConfigValue> &values() const { return values_; }
  /// The user's first, then the project's: later ones win.
  const std::vector<ToleranceRule> &tolerances() const { return tolerances_; }
  /// The files that were read.
  const std::vector<std::string> &files() const { return files_; }
  /// What people should know of the plugins that files name: those that are loaded, and those that are not.
  std::vector<std::string> pluginNotes() const;
  /// Sets the targets of the options that are configured and not in `given`, the command line's. Plugins and
  /// costs are put in front of what was given, which names others or wins. Errors: OPC0001 for a value that the option
  /// does not take, OPC0008 for a library that a file names and distrustOf() has something against.
  Status apply(const std::vector<Option> &options, const std::set<std::string> &given) const;

private:
  /// `folder`: of a file that the search has found and that is not the user's own.
  Status readFile(const std::string &path, bool takesPlugins = true, const std::string &folder = "");
  struct Reader; // sees toml++
  Status readEnvironment();
  std::vector<ConfigValue> values_;
  std::vector<ToleranceRule> tolerances_;
  std::vector<std::string> files_;
  std::string leftOut_; // where plugins are named that are not taken
};

} // namespace opc::cli
