// What becomes of a run's outputs: printed, written to files, compared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"
#include "Option.h"
#include "Session.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opc::cli {

/// How much of each output is printed.
struct PrintMode {
  enum class Kind { kNone, kSummary, kAll, kFirst };
  Kind kind = Kind::kSummary;
  int64_t count = 0; // kFirst
};
/// --print.
Option printOption(PrintMode *to);

struct NamedOutput {
  std::string name;
  HostTensor tensor;
};

/// All outputs of a run, in the graph's order.
Result<std::vector<NamedOutput>> fetchAll(const Session &session);

/// "logits  f32[360,10]  min -12.3  max 14.2  mean 0.5", or the values.
std::string outputText(const NamedOutput &output, PrintMode mode);
/// name, dtype, shape, statistics over the finite values, and the values that the mode asks for.
Json outputJson(const NamedOutput &output, PrintMode mode);

/// "17 tasks on 1 stream, 1.2 MiB of memory, 300 KiB of constants and variables".
std::string sizeText(const SessionStats &stats);

/// Whether `path` may be written: its directory exists, it is no directory, it is not the file that was read, and a
/// file can be made there. "-" is always fine. Errors: OPC0002, OPC0707.
Status checkOutputPath(const std::string &path, const std::string &inputPath);

/// Refuses the ending of a kind of file that `option` does not write; what is no such ending is fine. Error: OPC0002.
Status checkEnding(const std::string &option, const std::string &path, const std::vector<std::string> &known);
/// The same for -o of what --as (text, json, svg, ...) shows.
Status checkEndingAs(const std::string &as, const std::string &path);
/// The same for --output NAME=FILE and --outputs DIR|FILE, before anything runs.
Status checkOutputEndings(const std::vector<std::string> &named, const std::string &all);

/// Makes a directory for outputs and those above it, where they are missing; a file can be made in it. Errors: OPC0002,
/// OPC0707.
Status makeOutputDirectory(const std::string &path);

/// Whether --outputs is a directory, there or to be made: neither empty nor an archive's name.
bool isOutputDirectory(const std::string &path);

/// Where outputs are written. Paths are checked before the run, files are written after.
class OutputFiles {
public:
  /// `named`: "NAME=FILE" flags; `all`: a directory, or a file ending in .npz or .safetensors; may be empty.
  /// `onnx`: the directory gets output_0.pb, output_1.pb, ... in the order of `outputs`.
  /// Errors: OPC0002, OPC0003, OPC0005.
  static Result<OutputFiles> plan(const std::vector<std::string> &named, const std::string &all,
                                  const std::vector<PortInfo> &outputs, const std::string &inputPath,
                                  bool onnx = false);
  /// True when a tensor goes to standard output.
  bool usesStdout() const;
  Status write(const std::vector<NamedOutput> &outputs) const;
  /// Path by output name, for reports.
  const std::vector<std::pair<std::string, std::string>> &files() const { return files_; }
  const std::string &archive() const { return archive_; }

private:
  std::vector<std::pair<std::string, std::string>> files_; // one tensor each
  std::string archive_;
};

/// The file for an output in a directory: NAME.npy. '/' in a name makes directories; a name cannot leave `directory`.
std::string outputPathIn(const std::string &directory, const std::string &name);

} // namespace opc::cli
