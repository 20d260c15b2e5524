// The files of a run.
// SPDX-License-Identifier: Apache-2.0
#include "FileUse.h"

#include "Invocation.h"
#include "JsonOutput.h"
#include "ModelData.h"
#include "PluginOverrides.h"
#include "WriteFailure.h"

#include <sys/stat.h>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

bool isStep(const std::string &name, const fs::path &of) {
  const std::string before = of.stem().string() + ".step", after = of.extension().string();
  if (name.size() <= before.size() + after.size() || name.rfind(before, 0) != 0) return false;
  if (name.compare(name.size() - after.size(), after.size(), after) != 0) return false;
  const std::string number = name.substr(before.size(), name.size() - before.size() - after.size());
  return number.find_first_not_of("0123456789") == std::string::npos;
}

} // namespace

FileUse::File FileUse::fileAt(const std::string &path, const std::string &option) {
  File f;
  f.path = path;
  f.option = option;
  std::error_code error;
  const fs::path whole = fs::absolute(followLinks(path), error).lexically_normal();
  f.folder = fs::weakly_canonical(whole.parent_path(), error);
  if (error) f.folder = whole.parent_path();
  f.name = whole.filename();
  struct stat st;
  if (path == "-" || ::stat(path.c_str(), &st) != 0) {
    f.isShared = path == "-";
    return f;
  }
  f.device = st.st_dev;
  f.inode = st.st_ino;
  f.isAlone = st.st_nlink == 1;
  f.isFolder = S_ISDIR(st.st_mode);
  f.isShared = !f.isFolder && !S_ISREG(st.st_mode);
  return f;
}

void FileUse::reads(const std::string &path, const std::string &option) {
  if (path.empty()) return;
  files_.push_back(fileAt(path, option));
  constexpr std::string_view kIndex = ".index.json";
  if (path.size() < kIndex.size() || path.compare(path.size() - kIndex.size(), kIndex.size(), kIndex) != 0) return;
  const Result<FileBytes> bytes = FileBytes::open(path);
  if (!bytes) return; // whoever reads it says so
  const Json index = Json::parse(bytes->view().begin(), bytes->view().end(), nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) return;
  std::set<std::string> shards;
  for (const auto &item : index["weight_map"].items())
    if (item.value().is_string()) shards.insert(item.value().get<std::string>());
  for (const std::string &shard : shards)
    files_.push_back(fileAt((fs::path(path).parent_path() / shard).string(), option));
}

void FileUse::readsGraph(const std::string &path, const std::string &option) {
  reads(path, option);
  for (const std::string &data : modelDataFiles(path)) files_.push_back(fileAt(data, option + "'s tensors"));
}

void FileUse::readsSettings(const Invocation &invocation) {
  for (const std::string &plugin : invocation.flags().plugins) reads(pluginPath(plugin), "--plugin");
  for (const std::string &path : invocation.config().files()) reads(path, "the settings");
}

void FileUse::readsSpec(const std::string &spec, const std::string &option) {
  const Result<TensorSpec> parsed = parseTensorSpec(spec);
  if (!parsed || parsed->path.empty()) return;
  // As TensorFile::open() has it: what follows the longest prefix that exists is a key.
  std::string path = parsed->path;
  struct stat st;
  while (path != "-" && ::stat(path.c_str(), &st) != 0) {
    const size_t colon = path.rfind(':');
    if (colon == std::string::npos || colon == 0) return reads(parsed->path, option);
    path.resize(colon);
  }
  reads(path, option);
}

void FileUse::readsValues(const std::vector<std::string> &flags, const std::string &option, const std::string &archive,
                          const std::string &archiveOption) {
  for (const std::string &flag : flags)
    if (const auto named = splitNamed(flag, option)) readsSpec(named->second, option + " " + flag);
  reads(archive, archiveOption + " " + archive);
}

void FileUse::readsValues(const ValueFlags &flags) {
  readsValues(flags.inputs, "--input", flags.archive, "--inputs");
  for (const std::string &path : flags.weights) reads(path, "--weights " + path);
}

void FileUse::wantsNamesOf(const SessionInterface &graph) {
  std::set<std::string> inputs, expected, variables;
  for (const PortInfo &p : graph.inputs) inputs.insert(p.name);
  for (const PortInfo &p : graph.outputs) expected.insert(p.name);
  for (const PortInfo &v : graph.variables) variables.insert(v.name);
  wants("--weights", variables);
  inputs.merge(variables);
  wants("--inputs", std::move(inputs));
  wants("--expects", std::move(expected));
}

bool FileUse::isIn(const File &written, const File &folder) const {
  std::error_code error;
  const fs::path inside = (written.folder / written.name).lexically_relative(folder.folder / folder.name);
  if (!written.inode || inside.empty() || *inside.begin() == "..") return false;
  const std::string ending = inside.extension().string(), key = fs::path(inside).replace_extension().string();
  if (ending != ".npy" && ending != ".pb") return false;
  const auto wanted = wanted_.find(folder.option.substr(0, folder.option.find(' ')));
  return wanted == wanted_.end() || ending == ".pb" || wanted->second.count(key) > 0;
}

bool FileUse::isSame(const File &written, const File &other) const {
  if (written.isShared || other.isShared) return false;
  if (other.isFolder) return isIn(written, other);
  // A name of its own is what a file with several names loses: whatever is written replaces one name.
  if (written.inode && written.isAlone && written.inode == other.inode && written.device == other.device) return true;
  if (written.folder != other.folder) return false;
  if (written.isNumbered == other.isNumbered) return written.name == other.name;
  return written.isNumbered ? isStep(other.name.string(), written.name) : isStep(written.name.string(), other.name);
}

Status FileUse::add(File file) {
  for (const File &other : files_) {
    // A run that goes on may write where it has been: the states are its own.
    if (file.option == "--save" && other.option == "--resume") continue;
    if (!isSame(file, other)) continue;
    return Status(StatusCode::kUsage, "OPC0002",
                  "the output " + file.path + (file.isNumbered ? " with the numbers of steps" : "") + " (" +
                      file.option + ") is another file of this run: " + other.path + " (" + other.option + ")")
        .withHelp("give it another name");
  }
  files_.push_back(std::move(file));
  return Status::ok();
}

Status FileUse::writes(const std::string &path, const std::string &option) {
  if (path.empty()) return Status::ok();
  if (path == "-") {
    const auto kind = [](const std::string &text) { return text.substr(0, text.find(' ')); };
    if (!toStandardOutput_.empty() && kind(toStandardOutput_) != kind(option)) // several --output follow each other
      return Status(StatusCode::kUsage, "OPC0002", option + " and " + toStandardOutput_ + " both want standard output")
          .withHelp("give one of them a file");
    toStandardOutput_ = option;
  }
  return add(fileAt(path, option));
}

Status FileUse::writesNumbered(const std::string &path, const std::string &option) {
  File file = fileAt(path, option);
  file.inode = file.device = 0; // those of the name without a number
  file.isNumbered = true;
  return add(std::move(file));
}

} // namespace opc::cli
