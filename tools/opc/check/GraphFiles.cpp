// Which graphs a check looks at.
// SPDX-License-Identifier: Apache-2.0
#include "GraphFiles.h"

#include "LockFile.h"
#include "Option.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

const std::string kLockEnding = ".opc.lock";

bool endsWith(const std::string &text, const std::string &ending) {
  return text.size() > ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

bool isGraph(const std::string &path) {
  for (const char *ending : {".pbtxt", ".prototxt", ".pb"})
    if (endsWith(path, ending)) return true;
  return false;
}

/// Regular files below a folder, sorted.
Result<std::vector<std::string>> filesBelow(const std::string &folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error), end;
  while (!error && at != end) {
    const fs::path &path = at->path();
    const bool isLink = at->is_symlink(error);
    if (!isLink && at->is_directory(error)) {
      if (path.filename().string()[0] == '.') at.disable_recursion_pending();
    } else if (!isLink && at->is_regular_file(error)) {
      files.push_back(path.lexically_normal().string());
    }
    at.increment(error);
  }
  if (error) return Status(StatusCode::kUsage, "OPC0706", "cannot read the folder " + folder + ": " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

} // namespace

Result<GraphFiles> findGraphs(const std::vector<std::string> &paths) {
  GraphFiles found;
  std::set<std::string> seen;
  const auto add = [&](const std::string &path) {
    if (seen.insert(fs::path(path).lexically_normal().string()).second) found.graphs.push_back(path);
  };
  for (const std::string &path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      if (!fs::exists(path, error)) return Status(StatusCode::kUsage, "OPC0706", path + " does not exist");
      add(path);
      continue;
    }
    OPC_ASSIGN_OR_RETURN(const std::vector<std::string> files, filesBelow(path));
    std::set<std::string> locks;
    const size_t before = found.graphs.size();
    for (const std::string &file : files)
      if (isGraph(file)) {
        add(file);
        locks.insert(lockPathOf(file));
      }
    if (found.graphs.size() == before && locks.empty())
      return usageError("no graph is in " + path, "graphs are files that end in .pbtxt, .prototxt or .pb");
    for (const std::string &file : files)
      if (endsWith(file, kLockEnding) && !locks.count(file)) found.orphans.push_back(file);
  }
  return found;
}

} // namespace opc::cli
