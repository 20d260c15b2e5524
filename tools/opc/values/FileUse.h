// The files of a run: what it reads, and what it may write.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ValueGiver.h"

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace opc::cli {

class Invocation;

/// No output may replace a file that the same run reads or writes otherwise. First reads*(), then writes*().
class FileUse {
public:
  /// The plugins and settings of a command.
  void readsSettings(const Invocation &invocation);
  /// A file, or a directory of tensors, or a .safetensors.index.json with its shards. `option` is named in errors.
  void reads(const std::string &path, const std::string &option);
  /// A graph, with the files that hold the tensors of an ONNX model.
  void readsGraph(const std::string &path, const std::string &option);
  /// The file of a specification, if it names one: "@FILE[:KEY]".
  void readsSpec(const std::string &spec, const std::string &option);
  /// "NAME=SPEC" flags and an archive.
  void readsValues(const std::vector<std::string> &flags, const std::string &option, const std::string &archive,
                   const std::string &archiveOption);
  void readsValues(const ValueFlags &flags);
  /// Of a directory that `option` has given, only the tensors of these names are read.
  void wants(const std::string &option, std::set<std::string> names) { wanted_[option] = std::move(names); }
  /// The same of --inputs, --weights and --expects, when the names of a graph's tensors are known.
  void wantsNamesOf(const SessionInterface &graph);

  /// OPC0002 when `path` is another file of the run. Devices and pipes may have several uses; "-" may
  /// be read and written, but not written by two options.
  Status writes(const std::string &path, const std::string &option);
  /// `path` with ".stepN" before its ending, for every N.
  Status writesNumbered(const std::string &path, const std::string &option);

private:
  struct File {
    std::string path, option;
    std::filesystem::path folder, name; // of the file that links lead to
    uint64_t device = 0, inode = 0;     // of a file that is there
    bool isAlone = false;               // it has no other name
    bool isFolder = false, isNumbered = false, isShared = false;
  };
  static File fileAt(const std::string &path, const std::string &option);
  bool isSame(const File &written, const File &other) const;
  bool isIn(const File &written, const File &folder) const;
  Status add(File file);

  std::vector<File> files_;
  std::string toStandardOutput_;                        // the option that writes there
  std::map<std::string, std::set<std::string>> wanted_; // by option; not there: all
};

} // namespace opc::cli
