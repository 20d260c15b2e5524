// The configuration: files, environment, defaults.
// SPDX-License-Identifier: Apache-2.0
#include "Config.h"

#include "NearestNames.h"
#include "NumberText.h"
#include "Session.h"
#include "TensorMetrics.h"
#include "Toml.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

using Kind = ConfigKey::Kind;

Status bad(const std::string &file, const TomlValue &at, const std::string &what, const std::string &help = "") {
  return Status(StatusCode::kUsage, "OPC0008",
                file + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " + what)
      .withHelp(help);
}

/// What is wrong with a value, or "".
std::string complaint(const ConfigKey &key, const std::string &value) {
  if (key.kind == Kind::kInteger && !parseInteger<uint64_t>(value)) return "wants a whole number";
  if (key.kind == Kind::kSize && !parseBytes(value)) return "wants a size such as 800M or 16G";
  return "";
}

std::string beside(const std::string &file, const std::string &path) {
  if (path.empty() || path[0] == '/') return path;
  std::error_code error;
  return (fs::absolute(file, error).parent_path() / path).lexically_normal().string();
}

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// The value of a key as text; a number keeps its spelling as far as it has one.
std::optional<std::string> scalarText(const TomlValue &v) {
  if (const auto *text = std::get_if<std::string>(&v.value)) return *text;
  if (const auto *n = std::get_if<int64_t>(&v.value)) return std::to_string(*n);
  return std::nullopt;
}

Status readTolerance(const std::string &file, const TomlValue::Entry &entry, ToleranceRule *rule) {
  rule->key = entry.key;
  rule->origin = file + ":" + std::to_string(entry.value.line);
  const TomlValue::Table *table = entry.value.table();
  if (!table)
    return bad(file, entry.value, std::string("a tolerance is a table, not ") + entry.value.kind(),
               "f16 = { rtol = 2e-3, atol = 1e-3 }, or \"logits\" = { metric = \"cos>=0.999\" }");
  for (const TomlValue::Entry &e : table->entries) {
    const auto *real = std::get_if<double>(&e.value.value);
    const auto *whole = std::get_if<int64_t>(&e.value.value);
    const auto *text = std::get_if<std::string>(&e.value.value);
    if (e.key == "rtol" || e.key == "atol") {
      const double number = real ? *real : whole ? static_cast<double>(*whole) : -1;
      if (!(number >= 0)) return bad(file, e.value, e.key + " wants a number that is not negative");
      (e.key == "rtol" ? rule->rtol : rule->atol) = number;
    } else if (e.key == "metric") {
      Result<Metric> metric = parseMetric(text ? *text : "");
      if (!metric) return bad(file, e.value, metric.status().message(), metric.status().help());
      rule->metric = *text;
    } else {
      return bad(file, e.value, "a tolerance has no '" + e.key + "'", "it has rtol, atol and metric");
    }
  }
  return Status::ok();
}

} // namespace

const std::vector<ConfigKey> &configKeys() {
  static const std::vector<ConfigKey> keys = {
      {"target.devices", "--device", "OPC_DEVICE", Kind::kText, "cpu", "where to run"},
      {"target.threads", "-j", "OPC_THREADS", Kind::kInteger, "one for each core", "threads to use"},
      {"target.plugins", "--plugin", "OPC_PLUGINS", Kind::kList, "none", "libraries with operators", true},
      {"run.seed", "--seed", "OPC_SEED", Kind::kInteger, "0", "for random values"},
      {"run.fill", "--fill", "OPC_FILL", Kind::kText, "none", "for inputs without a value"},
      {"run.print", "--print", "OPC_PRINT", Kind::kText, "summary", "what is printed of each output"},
      {"run.max_memory", "--max-memory", "OPC_MAX_MEMORY", Kind::kSize, "nine tenths of the machine's",
       "plans that need more are refused"},
      {"output.color", "--color", "OPC_COLOR", Kind::kText, "auto", "auto, always or never"},
      {"output.progress", "--progress", "OPC_PROGRESS", Kind::kText, "auto", "auto, plain, none or json"},
  };
  return keys;
}

Result<Config> Config::load(const std::string &directory, const std::string &file) {
  Config config;
  for (const ConfigKey &k : configKeys()) config.values_.push_back({&k, {k.standard}, "default"});
  std::string chosen = file.empty() ? environment("OPC_CONFIG") : file;
  std::error_code error;
  if (chosen.empty()) {
    std::string base = environment("XDG_CONFIG_HOME");
    // The specification wants an absolute path; another one is as if it were not set.
    if (base.empty() || base[0] != '/') base = environment("HOME").empty() ? "" : environment("HOME") + "/.config";
    if (!base.empty() && fs::is_regular_file(base + "/opc/config.toml", error))
      OPC_RETURN_IF_ERROR(config.readFile(base + "/opc/config.toml"));
    fs::path at = fs::absolute(directory.empty() ? "." : directory, error).lexically_normal();
    for (; !error; at = at.parent_path()) {
      if (fs::is_regular_file(at / "opc.toml", error)) {
        const fs::path here = fs::current_path(error);
        const bool inside = at == here || at == here / "";
        OPC_RETURN_IF_ERROR(config.readFile(inside ? "opc.toml" : (at / "opc.toml").string()));
        break;
      }
      error.clear();
      if (at == at.parent_path()) break;
    }
  } else if (chosen != "none") {
    if (!directory.empty() && chosen[0] != '/') chosen = directory + "/" + chosen;
    OPC_RETURN_IF_ERROR(config.readFile(chosen));
  }
  OPC_RETURN_IF_ERROR(config.readEnvironment());
  return config;
}

Status Config::readFile(const std::string &path) {
  Result<FileBytes> bytes = FileBytes::open(path);
  if (!bytes) return bytes.status();
  if (bytes->view().size() > (1 << 20))
    return Status(StatusCode::kUsage, "OPC0008", path + ": over 1 MiB: that is no configuration");
  Result<TomlValue> root = parseToml(bytes->view(), path);
  if (!root) return root.status();
  files_.push_back(path);
  const std::vector<std::string> sections = {"target", "run", "output", "tolerance", "check", "cache"};
  for (const TomlValue::Entry &section : root->table()->entries) {
    if (std::find(sections.begin(), sections.end(), section.key) == sections.end()) {
      const auto near = nearestNames(section.key, sections, 1);
      return bad(path, section.value, "there is no section [" + section.key + "]",
                 near.empty() ? "the sections are target, run, output and tolerance"
                              : "did you mean [" + near[0] + "]?");
    }
    if (section.key == "check" || section.key == "cache") continue; // for commands that read them
    if (!section.value.table())
      return bad(path, section.value, "'" + section.key + "' is a section",
                 "[" + section.key + "] on a line of its own");
    for (const TomlValue::Entry &entry : section.value.table()->entries) {
      if (section.key == "tolerance") {
        ToleranceRule rule;
        OPC_RETURN_IF_ERROR(readTolerance(path, entry, &rule));
        tolerances_.push_back(std::move(rule));
        continue;
      }
      const std::string name = section.key + "." + entry.key;
      auto it = std::find_if(values_.begin(), values_.end(), [&](const ConfigValue &v) { return name == v.key->name; });
      if (it == values_.end()) {
        std::vector<std::string> names;
        for (const ConfigKey &k : configKeys()) names.push_back(k.name);
        const auto near = nearestNames(name, names, 1);
        return bad(path, entry.value, "there is no setting " + name,
                   near.empty() ? "opc config lists the settings" : "did you mean " + near[0] + "?");
      }
      const ConfigKey &key = *it->key;
      std::vector<std::string> values;
      const auto *list = std::get_if<TomlValue::Array>(&entry.value.value);
      if ((key.kind == Kind::kList) != (list != nullptr))
        return bad(path, entry.value,
                   name + (key.kind == Kind::kList ? " wants an array" : " wants one value") + ", not " +
                       entry.value.kind());
      const std::vector<TomlValue> one = {entry.value};
      for (const TomlValue &v : list ? *list : one) {
        const auto text = scalarText(v);
        if (!text) return bad(path, v, name + " wants text or an integer, not " + v.kind());
        if (const std::string wrong = complaint(key, *text); !wrong.empty())
          return bad(path, v, name + " " + wrong + ", not '" + *text + "'");
        values.push_back(key.isPath ? beside(path, *text) : *text);
      }
      it->values = std::move(values);
      it->origin = path + ":" + std::to_string(entry.value.line);
    }
  }
  return Status::ok();
}

Status Config::readEnvironment() {
  for (ConfigValue &v : values_) {
    const std::string text = environment(v.key->environment);
    if (text.empty()) continue; // empty is unset
    if (const std::string wrong = complaint(*v.key, text); !wrong.empty())
      return Status(StatusCode::kUsage, "OPC0008",
                    std::string(v.key->environment) + " in the environment " + wrong + ", not '" + text + "'");
    v.values = {text};
    if (v.key->kind == Kind::kList) {
      v.values.clear();
      for (size_t start = 0; start <= text.size();) {
        const size_t colon = std::min(text.find(':', start), text.size());
        if (colon > start) v.values.push_back(text.substr(start, colon - start));
        start = colon + 1;
      }
    }
    v.origin = v.key->environment;
  }
  return Status::ok();
}

void Config::apply(const std::vector<Option> &options) const {
  for (const ConfigValue &v : values_) {
    if (v.isDefault()) continue;
    for (const Option &o : options) {
      if (o.name != v.key->option && !(o.letter && std::string("-") + o.letter == v.key->option)) continue;
      if (auto *text = std::get_if<std::string *>(&o.target)) **text = v.values.front();
      if (auto *text = std::get_if<std::optional<std::string> *>(&o.target)) **text = v.values.front();
      if (auto *list = std::get_if<std::vector<std::string> *>(&o.target))
        (*list)->insert((*list)->begin(), v.values.begin(), v.values.end());
    }
  }
}

} // namespace opc::cli
