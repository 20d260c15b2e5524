// Crash bundles and reproducers that are read.
// SPDX-License-Identifier: Apache-2.0
#include "BundleFile.h"

#include "CrashRecord.h"
#include "JsonOutput.h"
#include "Sha256.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <sys/stat.h>
#include <unistd.h>

namespace opc::cli {

namespace {

constexpr size_t kMostJsonBytes = 4 << 20;
const std::string kReproducer = "# opc reproducer 1\n", kTolerance = "tolerance.";
const char *const kGraphFiles[] = {"graph.pbtxt", "graph.pb", "graph.plan"};

Status bad(const std::string &path, const std::string &what) {
  return Status(StatusCode::kInvalidGraph, "OPC0750", path + ": " + what)
      .withHelp("a bundle is a folder opc-crash-... as opc has written it");
}

/// A regular file that is no link; `folder` may be AT_FDCWD.
Result<std::string> readRegular(int folder, const std::string &name, const std::string &shown, size_t most) {
  const int file = ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return errno == ELOOP ? bad(shown, "a link, and links are not followed")
                          : Status(StatusCode::kUsage, "OPC0706", shown + ": " + std::strerror(errno));
  struct stat about{};
  std::string text;
  Status status;
  if (::fstat(file, &about) != 0 || !S_ISREG(about.st_mode))
    status = bad(shown, "no regular file");
  else if (static_cast<uint64_t>(about.st_size) > most)
    status =
        bad(shown, "of " + std::to_string(about.st_size) + " bytes; at most " + std::to_string(most) + " are read");
  else
    text.resize(static_cast<size_t>(about.st_size));
  for (size_t at = 0; status && at < text.size();) {
    const ssize_t n = ::read(file, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) status = bad(shown, "it became shorter while it was read");
    at += n > 0 ? static_cast<size_t>(n) : 0;
  }
  ::close(file);
  if (!status) return status;
  return text;
}

/// A line of [tolerance], as settingsJson() of CrashRecord.cpp notes it: what is infinite is no number in JSON.
ToleranceRule toleranceOf(const std::string &key, const Json &json) {
  const auto number = [](const Json &value) {
    return value.is_number() ? value.get<double>() : std::numeric_limits<double>::infinity();
  };
  ToleranceRule rule;
  rule.key = key;
  if (json.contains("rtol")) rule.rtol = number(json.at("rtol"));
  if (json.contains("atol")) rule.atol = number(json.at("atol"));
  if (json.contains("metric")) rule.metric = json.at("metric").get<std::string>();
  if (json.contains("nan")) rule.nanEqual = json.at("nan").get<std::string>() == "equal";
  return rule;
}

class Reader {
public:
  explicit Reader(BundleFile *bundle) : bundle_(*bundle) {}

  Status readJson(const std::string &text) {
    const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("opc_crash", Json()) != 1)
      return bad(bundle_.path, "bundle.json is no JSON object with \"opc_crash\": 1");
    try {
      read(json);
    } catch (const Json::exception &e) {
      return bad(bundle_.path, std::string("bundle.json: ") + e.what());
    }
    if (bundle_.command.empty()) return bad(bundle_.path, "bundle.json has no command");
    return Status::ok();
  }

private:
  void read(const Json &json) {
    bundle_.version = json.at("version").get<std::string>();
    bundle_.command = json.at("command").get<std::vector<std::string>>();
    if (json.contains("graph")) {
      const Json &graph = json.at("graph");
      bundle_.graphPath = graph.at("path").get<std::string>();
      bundle_.graphFile = graph.at("file").get<std::string>();
      bundle_.graphDigest = graph.at("sha256").get<std::string>();
    }
    for (const Json &plugin : json.at("plugins"))
      bundle_.plugins.emplace_back(plugin.at("path").get<std::string>(), plugin.at("sha256").get<std::string>());
    for (const auto &[name, value] : json.at("settings").items())
      if (value.is_array())
        bundle_.settings[name] = value.get<std::vector<std::string>>();
      else if (value.is_object() && name.compare(0, kTolerance.size(), kTolerance) == 0)
        bundle_.tolerances.push_back(toleranceOf(name.substr(kTolerance.size()), value));
    for (const auto &[name, value] : json.at("environment").items())
      bundle_.environment.emplace_back(name, value.get<std::string>());
    const Json &failure = json.at("failure");
    RecordedFailure &f = bundle_.failure.emplace();
    f.exitCode = failure.at("exit_code").get<int>();
    f.code = failure.at("code").get<std::string>();
    f.signal = failure.at("signal").get<std::string>();
    f.phase = failure.at("phase").get<std::string>();
    f.pass = failure.at("pass").get<std::string>();
  }

  BundleFile &bundle_;
};

Result<BundleFile> readFolder(const std::string &path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0)
    return errno == ELOOP || errno == ENOTDIR
               ? bad(path, "a link, and links are not followed")
               : Status(StatusCode::kUsage, "OPC0706", path + ": " + std::strerror(errno));
  BundleFile bundle;
  bundle.path = path;
  Result<std::string> json = readRegular(folder, "bundle.json", path + "/bundle.json", kMostJsonBytes);
  Status status = json ? Reader(&bundle).readJson(*json) : json.status();
  if (status && !bundle.graphFile.empty()) {
    if (std::find(std::begin(kGraphFiles), std::end(kGraphFiles), bundle.graphFile) == std::end(kGraphFiles)) {
      status = bad(path, "its graph is said to be in '" + bundle.graphFile + "'");
    } else if (auto graph = readRegular(folder, bundle.graphFile, path + "/" + bundle.graphFile, kMostBundledBytes);
               !graph) {
      status = graph.status();
    } else if (sha256(*graph) != bundle.graphDigest) {
      status = bad(path, bundle.graphFile + " has not the SHA-256 that bundle.json says");
    } else {
      bundle.graph = *std::move(graph);
    }
  }
  ::close(folder);
  if (!status) return status;
  return bundle;
}

/// The JSON text behind "# NAME: " among the first lines, which are comments.
Json headerOf(const std::string &text, const std::string &name) {
  const std::string mark = "# " + name + ": ";
  for (size_t at = 0; at < text.size() && text[at] == '#';) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (text.compare(at, mark.size(), mark) == 0)
      return Json::parse(text.substr(at + mark.size(), end - at - mark.size()), nullptr, false);
    at = end + 1;
  }
  return {};
}

Result<BundleFile> readReproducer(const std::string &path) {
  BundleFile bundle;
  bundle.path = path;
  OPC_ASSIGN_OR_RETURN(bundle.graph, readRegular(AT_FDCWD, path, path, size_t{4} << 30));
  if (bundle.graph.compare(0, kReproducer.size(), kReproducer) != 0)
    return bad(path, "neither a crash bundle nor a file of opc compile --reproducer");
  const Json command = headerOf(bundle.graph, "command");
  const bool isList = command.is_array() && !command.empty() &&
                      std::all_of(command.begin(), command.end(), [](const Json &word) { return word.is_string(); });
  if (!isList) return bad(path, "it has no line '# command: [...]'");
  bundle.command = command.get<std::vector<std::string>>();
  bundle.graphFile = kGraphFiles[0];
  return bundle;
}

} // namespace

std::string RecordedFailure::text() const {
  std::string text = code.empty() ? "exit code " + std::to_string(exitCode) : code;
  if (!phase.empty()) text += " in phase " + phase;
  if (!pass.empty()) text += ", pass " + pass;
  return signal.empty() ? text : text + " (" + signal + ")";
}

Result<BundleFile> readBundle(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return Status(StatusCode::kUsage, "OPC0706", path + ": there is no such bundle");
  return std::filesystem::is_directory(path, error) ? readFolder(path) : readReproducer(path);
}

bool looksLikeBundle(const std::string &path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return std::filesystem::exists(path + "/bundle.json", error);
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  std::string begin(kReproducer.size(), '\0');
  const bool is = file >= 0 && ::pread(file, begin.data(), begin.size(), 0) == static_cast<ssize_t>(begin.size()) &&
                  begin == kReproducer;
  if (file >= 0) ::close(file);
  return is;
}

std::optional<RecordedFailure> failureIn(const std::string &folder) {
  Result<BundleFile> bundle = readFolder(folder);
  return bundle ? bundle->failure : std::nullopt;
}

} // namespace opc::cli
