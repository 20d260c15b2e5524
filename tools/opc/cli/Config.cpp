// The configuration: files, environment, defaults. The one file that sees toml++.
// SPDX-License-Identifier: Apache-2.0
#define TOML_HEADER_ONLY 1 // no library of it has to be beside opc
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include "Config.h"

#include "FileTrust.h"
#include "NearestNames.h"
#include "NumberText.h"
#include "PluginOverrides.h"
#include "PrintableText.h"
#include "Session.h"
#include "TensorMetrics.h"

// What toml++ asserts of a file is not so ("[=]"): its parser checks it behind the assertion, and says so. With NDEBUG
// an assertion would become an assumption of the compiler.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <tuple>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

using Kind = ConfigKey::Kind;

constexpr size_t kMaxBytes = 64 << 10;

Status bad(const std::string &file, const toml::source_position &at, const std::string &what,
           const std::string &help = "") {
  return Status(StatusCode::kUsage, "OPC0008",
                file + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " + printableName(what))
      .withHelp(help);
}

Status bad(const std::string &file, const toml::node &at, const std::string &what, const std::string &help = "") {
  return bad(file, at.source().begin, what, help);
}

Status untrusted(const std::string &what, const std::string &why, const std::string &otherwise) {
  return Status(StatusCode::kUsage, "OPC0008", what + ": " + why + ", and it decides what code runs")
      .withHelp("make it and its folder yours or root's and writable by nobody else (chown, chmod go-w); " + otherwise);
}

const char *kindOf(const toml::node &node) {
  switch (node.type()) {
  case toml::node_type::table: return "a table";
  case toml::node_type::array: return "an array";
  case toml::node_type::string: return "a string";
  case toml::node_type::integer: return "an integer";
  case toml::node_type::floating_point: return "a number";
  case toml::node_type::boolean: return "a boolean";
  default: return "a date or time";
  }
}

struct Entry {
  std::string key;
  const toml::node *value;
  std::string origin(const std::string &file) const { return file + ":" + std::to_string(value->source().begin.line); }
};

/// As the file has them; toml++ sorts by name. Of tolerances the last one wins, of mistakes the first is reported.
std::vector<Entry> entriesOf(const toml::table &table) {
  std::vector<Entry> entries;
  for (const auto &[key, value] : table) entries.push_back({std::string(key.str()), &value});
  std::stable_sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) {
    const auto &left = a.value->source().begin, &right = b.value->source().begin;
    return std::tie(left.line, left.column) < std::tie(right.line, right.column);
  });
  return entries;
}

/// What is wrong with a value, or "".
std::string complaint(const ConfigKey &key, const std::string &value) {
  if (key.kind == Kind::kInteger && !parseInteger<uint64_t>(value)) return "wants a whole number";
  if (key.kind == Kind::kSize && !parseBytes(value)) return "wants a size such as 800M or 16G";
  return "";
}

std::string beside(const std::string &file, const std::string &path) {
  if (isOverriding(path)) return overridingPlugin(beside(file, pluginPath(path)));
  if (path.empty() || path[0] == '/') return path;
  std::error_code error;
  return (fs::absolute(file, error).parent_path() / path).lexically_normal().string();
}

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::optional<std::string> scalarText(const toml::node &v) {
  if (const auto *text = v.as_string()) return text->get();
  if (const auto *n = v.as_integer()) return std::to_string(n->get());
  return std::nullopt;
}

Status readTolerance(const std::string &file, const Entry &entry, ToleranceRule *rule) {
  rule->key = entry.key;
  rule->origin = entry.origin(file);
  const toml::table *table = entry.value->as_table();
  if (!table)
    return bad(file, *entry.value, std::string("a tolerance is a table, not ") + kindOf(*entry.value),
               "f16 = { rtol = 2e-3, atol = 1e-3 }, or \"logits\" = { metric = \"cos>=0.999\" }");
  for (const Entry &e : entriesOf(*table)) {
    if (e.key == "rtol" || e.key == "atol") {
      const double number = e.value->value<double>().value_or(-1); // of an integer, too
      if (!(number >= 0)) return bad(file, *e.value, e.key + " wants a number that is not negative");
      (e.key == "rtol" ? rule->rtol : rule->atol) = number;
    } else if (e.key == "metric") {
      rule->metric = e.value->value_or(std::string());
      Result<Metric> metric = parseMetric(rule->metric);
      if (!metric) return bad(file, *e.value, metric.status().message(), metric.status().help());
    } else {
      return bad(file, *e.value, "a tolerance has no '" + e.key + "'", "it has rtol, atol and metric");
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
  for (const ConfigKey &k : configKeys()) config.values_.push_back({&k, {k.standard}, "default", {}});
  std::string chosen = file.empty() ? environment("OPC_CONFIG") : file;
  std::error_code error;
  if (chosen.empty()) {
    std::string base = environment("XDG_CONFIG_HOME");
    // The specification wants an absolute path; another one is as if it were not set.
    if (base.empty() || base[0] != '/') base = environment("HOME").empty() ? "" : environment("HOME") + "/.config";
    if (!base.empty() && fs::is_regular_file(base + "/opc/config.toml", error))
      OPC_RETURN_IF_ERROR(config.readFile(base + "/opc/config.toml"));
    fs::path at = fs::absolute(directory.empty() ? "." : directory, error).lexically_normal();
    if (!at.has_filename()) at = at.parent_path(); // "x/" and "x/." are x
    const std::string project = projectOf(at.string());
    for (; !error; at = at.parent_path()) {
      if (fs::is_regular_file(at / "opc.toml", error)) {
        const fs::path here = fs::current_path(error);
        const bool inside = at == here || at == here / "";
        const bool ofProject = at.string().size() >= project.size(); // both are the directory or above it
        OPC_RETURN_IF_ERROR(config.readFile(inside ? "opc.toml" : (at / "opc.toml").string(), ofProject));
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

/// One setting of a file.
struct Config::Reader {
  static Status read(Config &config, const std::string &file, const std::string &name, const toml::node &node,
                     bool takesPlugins);
};

Status Config::Reader::read(Config &config, const std::string &file, const std::string &name, const toml::node &node,
                            bool takesPlugins) {
  auto it = std::find_if(config.values_.begin(), config.values_.end(),
                         [&](const ConfigValue &v) { return name == v.key->name; });
  if (it == config.values_.end()) {
    std::vector<std::string> names;
    for (const ConfigKey &k : configKeys()) names.push_back(k.name);
    const auto near = nearestNames(name, names, 1);
    return bad(file, node, "there is no setting " + name,
               near.empty() ? "opc config lists the settings" : "did you mean " + near[0] + "?");
  }
  const ConfigKey &key = *it->key;
  const toml::array *list = node.as_array();
  if ((key.kind == Kind::kList) != (list != nullptr))
    return bad(file, node,
               name + (key.kind == Kind::kList ? " wants an array" : " wants one value") + ", not " + kindOf(node));
  std::vector<std::string> values, places;
  for (size_t i = 0; i < (list ? list->size() : 1); ++i) {
    const toml::node &v = list ? (*list)[i] : node;
    places.push_back(Entry{"", &v}.origin(file));
    const auto text = scalarText(v);
    if (!text) return bad(file, v, name + " wants text or an integer, not " + kindOf(v));
    if (const std::string wrong = complaint(key, *text); !wrong.empty())
      return bad(file, v, name + " " + wrong + ", not '" + *text + "'");
    values.push_back(key.isPath ? beside(file, *text) : *text);
  }
  if (key.isPath && !takesPlugins) {
    if (!values.empty()) config.leftOut_ = places[0];
    return Status::ok();
  }
  it->values = std::move(values);
  it->places = std::move(places);
  it->origin = Entry{"", &node}.origin(file);
  return Status::ok();
}

Status Config::readFile(const std::string &path, bool takesPlugins) {
  if (const std::string why = distrustOf(path); !why.empty())
    return untrusted("the settings in " + path, why, "--config none reads no settings");
  OPC_ASSIGN_OR_RETURN(FileBytes bytes, FileBytes::open(path, kMaxBytes + 1));
  if (bytes.view().size() > kMaxBytes)
    return Status(StatusCode::kUsage, "OPC0008", path + ": over 64 KiB: that is no configuration");
  const toml::parse_result root = toml::parse(bytes.view(), path);
  if (!root) {
    std::string what(root.error().description());
    if (what.rfind("Error while", 0) == 0) what.erase(0, 6);
    return bad(path, root.error().source().begin, what, "the grammar of settings is TOML: https://toml.io");
  }
  files_.push_back(path);
  const std::vector<std::string> sections = {"target", "run", "output", "tolerance"};
  for (const Entry &section : entriesOf(root.table())) {
    if (std::find(sections.begin(), sections.end(), section.key) == sections.end()) {
      const auto near = nearestNames(section.key, sections, 1);
      return bad(path, *section.value, "there is no section [" + section.key + "]",
                 near.empty() ? "the sections are target, run, output and tolerance"
                              : "did you mean [" + near[0] + "]?");
    }
    const toml::table *table = section.value->as_table();
    if (!table)
      return bad(path, *section.value, "'" + section.key + "' is a section",
                 "[" + section.key + "] on a line of its own");
    for (const Entry &entry : entriesOf(*table)) {
      if (section.key == "tolerance") {
        ToleranceRule rule;
        OPC_RETURN_IF_ERROR(readTolerance(path, entry, &rule));
        tolerances_.push_back(std::move(rule));
      } else {
        OPC_RETURN_IF_ERROR(Reader::read(*this, path, section.key + "." + entry.key, *entry.value, takesPlugins));
      }
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
    v.places.clear();
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

std::vector<std::string> Config::pluginNotes() const {
  std::vector<std::string> notes;
  for (const ConfigValue &v : values_)
    for (size_t i = 0; v.key->isPath && i < v.places.size(); ++i)
      notes.push_back("plugin " + printableName(v.values[i]) + ", from " + v.places[i]);
  if (!leftOut_.empty())
    notes.push_back("the plugins of " + leftOut_ +
                    " are not loaded: the file is outside of this folder's project (--plugin LIB loads one)");
  return notes;
}

Status Config::apply(const std::vector<Option> &options, const std::set<std::string> &given) const {
  for (const ConfigValue &v : values_) {
    if (v.isDefault()) continue;
    for (size_t i = 0; v.key->isPath && i < v.places.size(); ++i)
      if (const std::string why = distrustOf(pluginPath(v.values[i])); !why.empty())
        return untrusted("the plugin " + pluginPath(v.values[i]) + ", named by " + v.places[i], why,
                         "--config none --plugin " + v.values[i] + " loads it all the same");
    for (const Option &o : options) {
      if (!o.isCalled(v.key->option)) continue;
      if (auto *list = std::get_if<std::vector<std::string> *>(&o.target))
        (*list)->insert((*list)->begin(), v.values.begin(), v.values.end());
      else if (!given.count(o.shown()))
        if (Status s = o.set(v.values); !s)
          return Status(s.code(), s.id(), printableName(s.message()))
              .withHelp(s.help())
              .withContext("reading " + v.origin);
    }
  }
  return Status::ok();
}

} // namespace opc::cli
