// Which graphs a check looks at.
// SPDX-License-Identifier: Apache-2.0
#include "GraphFiles.h"

#include "FileBytes.h"
#include "GitFiles.h"
#include "GraphInput.h"
#include "LockFile.h"
#include "OpManifest.h"
#include "Option.h"

#include <algorithm>
#include <filesystem>
#include <fnmatch.h>
#include <iterator>
#include <optional>
#include <set>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

const std::string kStandardInput = "-", kLockEnding = ".opc.lock", kAnyFolders = "**/";

bool endsWith(std::string_view text, std::string_view ending) {
  return text.size() > ending.size() && text.ends_with(ending);
}

/// Folders whose files are no graphs: what an internal error has left, and tensors beside an ONNX model.
bool isPassedOver(const std::string &folder) {
  for (const std::string begin : {".", "opc-crash-", "test_data_set_"})
    if (folder.rfind(begin, 0) == 0) return true;
  return false;
}

bool isGraph(const std::string &path) {
  for (const char *ending : kGraphEndings)
    if (endsWith(path, ending)) return true;
  return false;
}

/// Whether a file that ends as a graph does says what operators another one has.
bool isManifest(const std::string &file) { return !graphOfManifest(file).empty() || holdsManifest(file); }

/// What a path has before the ending of a lock, or of what lies beside one; nothing for other paths.
std::optional<std::string> stemOfLock(const std::string &path) {
  const std::string stem = "g";
  for (const std::string &ending : {kLockEnding, inputsPathOf(stem).substr(1), valuesPathOf(stem).substr(1)})
    if (endsWith(path, ending)) return path.substr(0, path.size() - ending.size());
  return std::nullopt;
}

/// Whether the graph that a lock names lies beside it: one that was named to a check may end in anything.
bool hasNamedGraph(const std::string &stem) {
  std::error_code error;
  const fs::path lock = stem + kLockEnding;
  if (!fs::is_regular_file(fs::symlink_status(lock, error))) return false;
  const Result<FileBytes> file = FileBytes::open(lock.string());
  if (!file) return false;
  const std::string graph = (lock.parent_path() / graphOfLock(file->view())).string();
  return lockPathOf(graph) == lock.string() && fs::is_regular_file(graph, error);
}

/// Whether a graph of this name is there, also as a link, which a search does not follow.
bool hasGraph(const std::string &stem) {
  std::error_code error;
  return std::any_of(std::begin(kGraphEndings), std::end(kGraphEndings),
                     [&](const char *ending) { return fs::is_regular_file(stem + ending, error); }) ||
         hasNamedGraph(stem);
}

/// Of globs: paths below the working directory are relative.
fs::path folderOf(const std::string &folder) {
  std::error_code error;
  return fs::equivalent(folder, ".", error) ? fs::path() : fs::path(folder);
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
      if (isPassedOver(path.filename().string())) at.disable_recursion_pending();
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

bool matchesGlob(const std::string &glob, const std::string &path) {
  if (fnmatch(glob.c_str(), path.c_str(), 0) == 0) return true;
  const size_t any = glob.find(kAnyFolders);
  return any != std::string::npos && matchesGlob(glob.substr(0, any) + glob.substr(any + kAnyFolders.size()), path);
}

bool matchesGlob(const GraphGlob &glob, const std::string &path) {
  return matchesGlob((folderOf(glob.folder) / glob.glob).lexically_normal().string(), path);
}

Result<GraphFiles> filesOfGlob(const std::string &folder, const std::string &glob) {
  std::error_code error;
  const fs::path root = folderOf(folder);
  // What stands before the first wildcard need not be searched for.
  const size_t wild = glob.find_first_of("*?[");
  const std::string fixed = wild == std::string::npos ? glob : glob.substr(0, glob.rfind('/', wild) + 1);
  GraphFiles found;
  if (wild == std::string::npos) {
    found.graphs = {(root / glob).string()};
    return found;
  }
  const std::string start = (root / fixed).string();
  if (!fs::is_directory(start.empty() ? "." : start, error)) return found;
  OPC_ASSIGN_OR_RETURN(const std::vector<std::string> files, filesBelow(start.empty() ? "." : start));
  const std::string whole = (root / glob).lexically_normal().string();
  for (const std::string &file : files) {
    const std::optional<std::string> stem = stemOfLock(file);
    if (!stem) {
      if (matchesGlob(whole, file) && !isManifest(file)) found.graphs.push_back(file);
      continue;
    }
    if (!endsWith(file, kLockEnding)) continue;
    const bool isWanted = std::any_of(std::begin(kGraphEndings), std::end(kGraphEndings),
                                      [&](const char *ending) { return matchesGlob(whole, *stem + ending); });
    if (isWanted && !hasGraph(*stem)) found.orphans.push_back(file);
  }
  return found;
}

void joinOrphans(const std::vector<std::string> &more, GraphFiles *files) {
  files->orphans.insert(files->orphans.end(), more.begin(), more.end());
  std::set<std::string> own;
  for (const std::string &graph : files->graphs)
    for (const std::string &beside : {lockPathOf(graph), inputsPathOf(graph), valuesPathOf(graph)})
      own.insert(placeOfFile(beside));
  std::erase_if(files->orphans, [&](const std::string &lock) { return own.count(placeOfFile(lock)) > 0; });
}

std::string placeOfFile(const std::string &path) {
  std::error_code error;
  const fs::path file = fs::absolute(path, error).lexically_normal();
  return (fs::weakly_canonical(file.parent_path(), error) / file.filename()).string();
}

Result<GraphFiles> findGraphs(const std::vector<std::string> &paths) {
  GraphFiles found;
  std::set<std::string> seen;
  const auto add = [&](const std::string &path) {
    if (seen.insert(path == kStandardInput ? path : placeOfFile(path)).second) found.graphs.push_back(path);
  };
  for (const std::string &path : paths) {
    std::error_code error;
    if (path == kStandardInput) {
      add(path);
      continue;
    }
    if (!fs::is_directory(path, error)) {
      if (!fs::exists(path, error)) return Status(StatusCode::kUsage, "OPC0706", path + " does not exist");
      add(path);
      continue;
    }
    OPC_ASSIGN_OR_RETURN(const std::vector<std::string> files, filesBelow(path));
    std::set<std::string> locks;
    const size_t before = found.graphs.size(), orphansBefore = found.orphans.size();
    for (const std::string &file : files)
      if (isGraph(file) && !isManifest(file)) {
        add(file);
        for (const std::string &beside : {lockPathOf(file), inputsPathOf(file), valuesPathOf(file)})
          locks.insert(beside);
      }
    for (const std::string &file : files)
      if (const auto stem = stemOfLock(file); stem && !locks.count(file) && !hasGraph(*stem))
        found.orphans.push_back(file);
    // Locks alone are what is left when the last graph has gone.
    if (found.graphs.size() == before && locks.empty() && found.orphans.size() == orphansBefore)
      return usageError("no graph is in " + path, "graphs are files that end in .pbtxt, .prototxt, .pb or .onnx");
  }
  return found;
}

namespace {

/// The graphs of a revision below a folder, as filesBelow() names files; of those that are gone.
Status addGone(const std::string &revision, const std::string &folder, std::set<std::string> *gone) {
  OPC_ASSIGN_OR_RETURN(const std::vector<std::string> files, listGitFiles(revision, folder));
  const std::set<std::string> all(files.begin(), files.end());
  const auto hadGraph = [&](const std::string &manifest) {
    const std::string stem = manifest.substr(0, manifest.size() - python::kManifestEnding.size());
    return std::any_of(std::begin(kGraphEndings), std::end(kGraphEndings),
                       [&](const char *ending) { return all.count(stem + ending) > 0; });
  };
  for (const std::string &file : files) {
    std::error_code error;
    const fs::path path = (fs::path(folder) / file).lexically_normal();
    const bool isBeside = std::any_of(path.begin(), path.end(), [](const fs::path &part) {
      return part != ".." && part != "." && isPassedOver(part.string());
    });
    if (endsWith(file, python::kManifestEnding) && hadGraph(file)) continue;
    if (isGraph(file) && !isBeside && !fs::exists(fs::symlink_status(path, error))) gone->insert(path.string());
  }
  return Status::ok();
}

} // namespace

Result<std::vector<std::string>> takeRemovedGraphs(const std::string &revision, const std::vector<GraphGlob> &globs,
                                                   std::vector<std::string> *paths) {
  std::set<std::string> gone;
  std::vector<std::string> left;
  for (const std::string &path : *paths) {
    std::error_code error;
    const bool isThere = fs::exists(path, error);
    const size_t before = gone.size();
    if (fs::is_directory(path, error) || !isThere) OPC_RETURN_IF_ERROR(addGone(revision, path, &gone));
    if (!isThere && gone.size() == before) {
      OPC_ASSIGN_OR_RETURN(const auto file, findGitFile(revision, path));
      if (file) gone.insert(fs::path(path).lexically_normal().string());
    }
    bool isKept = isThere || gone.size() == before;
    if (isThere && gone.size() > before) { // all of a folder's graphs may be gone
      OPC_ASSIGN_OR_RETURN(const std::vector<std::string> files, filesBelow(path));
      isKept =
          std::any_of(files.begin(), files.end(), [](const std::string &f) { return isGraph(f) || stemOfLock(f); });
    }
    if (isKept) left.push_back(path);
  }
  *paths = std::move(left);
  for (const GraphGlob &g : globs) {
    const size_t wild = g.glob.find_first_of("*?[");
    if (wild == std::string::npos) continue;
    const std::string start = (folderOf(g.folder) / g.glob.substr(0, g.glob.rfind('/', wild) + 1)).string();
    std::set<std::string> below;
    OPC_RETURN_IF_ERROR(addGone(revision, start.empty() ? "." : start, &below));
    for (const std::string &file : below)
      if (matchesGlob(g, file)) gone.insert(file);
  }
  return std::vector<std::string>(gone.begin(), gone.end());
}

} // namespace opc::cli
