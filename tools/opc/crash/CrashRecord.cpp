// What is known of a command before it crashes.
// SPDX-License-Identifier: Apache-2.0
#include "CrashRecord.h"

#include "CommandLine.h"
#include "CommandList.h"
#include "JsonOutput.h"
#include "PlanFile.h"
#include "PluginOverrides.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <set>
#include <unistd.h>

namespace opc::cli {

namespace {

std::atomic<const CommandRecord *> command = nullptr; // what was noted before stays: somebody may be writing it
std::atomic<const GraphRecord *> mainGraph = nullptr;
thread_local std::unique_ptr<const GraphRecord> graph;
int start = -1;

std::string lineOf(const Json &json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json environmentJson() {
  Json json = Json::object();
  for (char **entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (text.rfind("OPC_", 0) == 0 && equals != std::string::npos)
      json[text.substr(0, equals)] = text.substr(equals + 1);
  }
  std::vector<std::pair<std::string, Json>> sorted;
  for (auto &[name, value] : json.items()) sorted.emplace_back(name, value);
  std::sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  Json result = Json::object();
  for (auto &[name, value] : sorted) result[name] = std::move(value);
  return result;
}

Json settingsJson(const Config &config) {
  Json json = Json::object();
  for (const ConfigValue &v : config.values())
    if (!v.isDefault() && !v.key->isPath && v.origin != v.key->environment) json[v.key->name] = v.values;
  for (const ToleranceRule &rule : config.tolerances()) {
    Json &one = json["tolerance." + rule.key];
    if (rule.rtol) one["rtol"] = realJson(*rule.rtol);
    if (rule.atol) one["atol"] = realJson(*rule.atol);
    if (!rule.metric.empty()) one["metric"] = rule.metric;
    if (rule.nanEqual) one["nan"] = *rule.nanEqual ? "equal" : "fail";
  }
  return json;
}

std::vector<std::string> bundleFolders(bool *isStart) {
  const char *chosen = std::getenv("OPC_CRASH_DIR");
  if (chosen && *chosen)
    return std::strcmp(chosen, "none") == 0 ? std::vector<std::string>() : std::vector<std::string>{chosen};
  *isStart = true;
  std::vector<std::string> folders = {"."};
  if (const char *temporary = std::getenv("TMPDIR"); temporary && *temporary) folders.push_back(temporary);
  folders.push_back("/tmp");
  return folders;
}

/// The words with {} for the graph. One of several graphs of a folder stands in place of the folder.
std::vector<std::string> wordsFor(const CommandRecord &noted, const std::string &path) {
  std::vector<std::string> words = noted.words;
  std::replace(words.begin(), words.end(), path, std::string("{}"));
  if (std::find(words.begin(), words.end(), "{}") != words.end()) return words;
  bool isPlaced = false;
  for (const std::string &folder : noted.positional) {
    const auto at = std::find(words.begin() + 1, words.end(), folder);
    if (at == words.end()) continue;
    if (isPlaced)
      words.erase(at);
    else
      *at = "{}", isPlaced = true;
  }
  if (!isPlaced) words.push_back("{}");
  return words;
}

} // namespace

bool isReplayedCommand(const std::vector<std::string> &words) {
  static const std::set<std::string> commands = {"compile", "run",   "grad",   "check", "show",    "report",
                                                 "diff",    "bench", "verify", "ops",   "quantize"};
  SharedFlags flags;
  const size_t at = firstPositional(flags.options(), words);
  if (at >= words.size()) return false;
  if (words[at] == "debug") return at + 1 < words.size() && words[at + 1] == "first-diff";
  return commands.count(words[at]) > 0;
}

void noteStart() { start = ::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC); }

void noteCommand(const std::vector<std::string> &words, const std::vector<std::string> &positional,
                 const Config &config, const std::vector<std::string> &plugins) {
  auto noted = std::make_unique<CommandRecord>();
  noted->words = words;
  noted->positional = positional;
  noted->isReplayed = isReplayedCommand(words);
  noted->command = lineOf(words);
  noted->settings = lineOf(settingsJson(config));
  noted->environment = lineOf(environmentJson());
  std::string version = versionText(false);
  while (!version.empty() && version.back() == '\n') version.pop_back();
  noted->version = lineOf(version);
  for (const std::string &path : plugins) noted->plugins.push_back({pluginPath(path), lineOf(path)});
  noted->folders = bundleFolders(&noted->isStartFolder);
  command = noted.release();
}

void noteGraph(const std::string &path, const SharedBytes &bytes) {
  const CommandRecord *noted = notedCommand();
  if (!noted) return;
  std::unique_ptr<GraphRecord> record;
  if (!path.empty()) {
    record = std::make_unique<GraphRecord>();
    record->path = path;
    record->json = lineOf(path);
    record->command = lineOf(wordsFor(*noted, path));
    record->size = bytes.size();
    if (bytes.size() <= kMostBundledBytes) record->bytes = bytes;
    record->file = looksLikePlan(bytes)                                ? "graph.plan"
                   : bytes.view().find('\0') == std::string_view::npos ? "graph.pbtxt"
                                                                       : "graph.pb";
  }
  if (::gettid() == ::getpid()) mainGraph = record.get();
  graph = std::move(record);
}

const CommandRecord *notedCommand() noexcept { return command; }
const GraphRecord *notedGraph() noexcept { return graph ? graph.get() : mainGraph.load(); }
int startFolder() noexcept { return start; }

} // namespace opc::cli
