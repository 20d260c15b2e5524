// opc debug replay.
// SPDX-License-Identifier: Apache-2.0
#include "CrashReplay.h"

#include "CommandList.h"
#include "FileBytes.h"
#include "JsonOutput.h"
#include "NumberText.h"
#include "PluginOverrides.h"
#include "PrintableText.h"
#include "ReplayCommand.h"
#include "Sha256.h"
#include "StopSignal.h"
#include "TextParts.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <unistd.h>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

const std::string kEnvironment = "OPC_", kBundles = "/bundles";

/// Settings of a bundle that name files, to read them or to write them, are not its own to say.
bool namesFiles(const ConfigKey &key) {
  static const std::set<std::string> others = {"check.paths", "cache.dir"};
  return key.isPath || others.count(key.name) > 0;
}

/// Variables of a bundle that are set again: settings that name no files, and what tests set.
bool isReplayed(const std::string &name) {
  if (name == "OPC_VERIFY_EACH" || name == "OPC_TEST_CRASH") return true;
  return std::any_of(configKeys().begin(), configKeys().end(),
                     [&](const ConfigKey &key) { return !namesFiles(key) && name == key.environment; });
}

std::string tomlText(const std::string &text) {
  // The escapes of JSON are TOML's, but for letters beyond 16 bits, which stay as they are, and the last of ASCII.
  std::string quoted = Json(text).dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  for (size_t at = 0; (at = quoted.find('\x7f', at)) != std::string::npos;) quoted.replace(at, 1, "\\u007f");
  return quoted;
}

/// The line of [tolerance], as it stands where no section has begun.
std::string toleranceLine(const ToleranceRule &rule) {
  const auto number = [](double value) { return std::isinf(value) ? "inf" : Json(value).dump(); };
  std::vector<std::string> parts;
  if (rule.rtol) parts.push_back("rtol = " + number(*rule.rtol));
  if (rule.atol) parts.push_back("atol = " + number(*rule.atol));
  if (!rule.metric.empty()) parts.push_back("metric = " + tomlText(rule.metric));
  if (rule.nanEqual) parts.push_back("nan = " + tomlText(*rule.nanEqual ? "equal" : "fail"));
  return "tolerance." + tomlText(rule.key) + " = { " + joined(parts, ", ") + " }\n";
}

/// Whether a library that is loaded has this SHA-256.
bool isLoaded(const std::vector<std::string> &plugins, const std::string &digest) {
  return std::any_of(plugins.begin(), plugins.end(), [&](const std::string &plugin) {
    const Result<FileBytes> file = FileBytes::open(pluginPath(plugin), 1);
    return file && sha256(file->view()) == digest;
  });
}

} // namespace

CrashReplay::~CrashReplay() {
  std::error_code error;
  if (!scratch_.empty()) fs::remove_all(scratch_, error);
}

Status CrashReplay::makeScratch() {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  std::string pattern = (folder / ("opc-replay-" + std::string(6, 'X'))).string();
  if (error || !::mkdtemp(pattern.data())) {
    const char *given = std::getenv("TMPDIR");
    return Status(StatusCode::kUsage, "OPC0707",
                  "no folder can be made in " + (error ? std::string(given ? given : "/tmp") : folder.string()) + ": " +
                      (error ? error.message() : std::strerror(errno)))
        .withHelp("TMPDIR names the folder for temporary files");
  }
  scratch_ = pattern;
  fs::create_directory(scratch_ + kBundles, error);
  return Status::ok();
}

/// With only the path of a graph, that file must still be the one.
Status CrashReplay::placeGraph() {
  if (bundle_.graphFile.empty()) {
    if (bundle_.graphPath.empty()) return Status::ok();
    OPC_ASSIGN_OR_RETURN(FileBytes file, FileBytes::open(bundle_.graphPath, 1));
    if (sha256(file.view()) != bundle_.graphDigest)
      return Status(StatusCode::kUsage, "OPC0751", bundle_.graphPath + " is not the graph that the bundle is of")
          .withHelp("the bundle has not the graph itself, which was too large; run replay where it is");
    graph_ = bundle_.graphPath;
    return Status::ok();
  }
  graph_ = scratch_ + "/" + bundle_.graphFile;
  return writeFileAtomically(graph_, bundle_.graph);
}

Status CrashReplay::open(const std::string &bundle) {
  OPC_ASSIGN_OR_RETURN(bundle_, readBundle(bundle));
  OPC_RETURN_IF_ERROR(makeScratch());
  OPC_RETURN_IF_ERROR(placeGraph());
  OPC_ASSIGN_OR_RETURN(ReplayCommand command,
                       replayCommand(bundle_.command, scratch_, !bundle_.graphFile.empty(), options_.anyFile));
  words_ = std::move(command.words);
  dropped_ = std::move(command.dropped);
  return writeFileAtomically(scratch_ + "/opc.toml", settings());
}

std::string CrashReplay::settings() const {
  std::string text;
  for (const ConfigKey &key : configKeys()) {
    const auto found = bundle_.settings.find(key.name);
    if (found == bundle_.settings.end() || namesFiles(key)) continue;
    const std::string values = joined(found->second, ", ", tomlText);
    text += std::string(key.name) + " = " + (key.kind == ConfigKey::Kind::kList ? "[" + values + "]" : values) + "\n";
  }
  text += "cache.dir = " + tomlText(scratch_ + "/code") + "\n"; // code that is made is written, too
  for (const ToleranceRule &rule : bundle_.tolerances) text += toleranceLine(rule);
  return text;
}

std::string CrashReplay::shellCommand(const std::string &graph) const {
  std::error_code error;
  std::string text;
  for (char **entry = environ; *entry; ++entry)
    if (std::string_view(*entry).substr(0, kEnvironment.size()) == kEnvironment)
      text += "unset " + shellQuoted(std::string(*entry, std::strcspn(*entry, "="))) + "; ";
  for (const auto &[name, value] : bundle_.environment)
    if (isReplayed(name)) text += name + "=" + shellQuoted(value) + " ";
  text += "OPC_CRASH_DIR=" + shellQuoted(scratch_ + kBundles) + " exec ";
  text += shellQuoted(fs::read_symlink("/proc/self/exe", error).string());
  text += " --config " + shellQuoted(scratch_ + "/opc.toml");
  for (const std::string &plugin : invocation_.flags().plugins) text += " --plugin " + shellQuoted(plugin);
  for (const std::string &folder : invocation_.flags().opPaths) text += " --op-path " + shellQuoted(folder);
  for (const std::string &word : words_) text += " " + shellQuoted(word == "{}" ? graph : word);
  return text;
}

opc::Result<CrashReplay::Result> CrashReplay::runOn(const std::string &graph) const {
  Result result;
  OPC_ASSIGN_OR_RETURN(result.signature, runForSignature(shellCommand(graph), options_.timeout));
  result.failure.exitCode = result.signature.isTimeout ? -1 : result.signature.exitCode;
  result.failure.code = result.signature.code;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(scratch_ + kBundles, error)) {
    if (const auto failure = failureIn(entry.path().string())) result.failure = *failure;
    fs::remove_all(entry.path(), error);
  }
  // The place belongs to what tells two failures apart, here and in reductions.
  if (const std::string place = result.failure.text(); result.failure.exitCode == kExitInternal)
    result.signature.code = place;
  return result;
}

Outcome<int> replayCrash(Invocation &invocation, const ReplayOptions &options, const std::string &path) {
  CrashReplay replay(invocation, options);
  OPC_RETURN_IF_ERROR(replay.open(path));
  const StopSignal stop;
  const BundleFile &bundle = replay.bundle();
  for (const auto &[plugin, digest] : bundle.plugins)
    if (invocation.flags().plugins.empty())
      invocation.note("note: the plugin " + printableName(plugin) + " is not loaded; --plugin LIB loads one");
    else if (!isLoaded(invocation.flags().plugins, digest))
      invocation.note("note: the bundle's plugin " + printableName(plugin) +
                      " has another SHA-256 than what --plugin names");
  std::string version = versionText(false);
  while (!version.empty() && version.back() == '\n') version.pop_back();
  if (!bundle.version.empty() && bundle.version != version)
    invocation.note("note: the bundle is of " + bundle.version + ", and this is " + version);
  OPC_ASSIGN_OR_RETURN(const CrashReplay::Result result, replay.runOn(replay.graph()));
  if (StopSignal::caught()) return 128 + StopSignal::caught();
  const std::string found = result.signature.isTimeout ? result.signature.text(options.timeout)
                            : result.failure.exitCode  ? result.failure.text()
                                                       : "no failure";
  const bool isSame = bundle.failure ? result.failure == *bundle.failure : result.signature.isFailure();
  if (invocation.flags().json)
    invocation.terminal().out(jsonText({{"schema", 1},
                                        {"bundle", path},
                                        {"same", isSame},
                                        {"recorded", bundle.failure ? Json(bundle.failure->text()) : Json()},
                                        {"found", found},
                                        {"exit_code", result.failure.exitCode}}));
  else if (!bundle.failure)
    invocation.terminal().out(found + "\n");
  else
    invocation.terminal().out(isSame ? "the same failure: " + found + "\n"
                                     : "not the same failure: " + found + "; the bundle has " + bundle.failure->text() +
                                           "\n");
  return isSame ? kExitOk : kExitNo;
}

} // namespace opc::cli
