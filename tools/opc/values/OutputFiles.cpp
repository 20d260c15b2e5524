// What becomes of a run's outputs.
// SPDX-License-Identifier: Apache-2.0
#include "OutputFiles.h"

#include "NamedValues.h"
#include "NumberText.h"
#include "TensorSpec.h"
#include "TextParts.h"
#include "WriteFailure.h"

#include "opc/PackedElements.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

bool endsWith(const std::string &text, std::string_view ending) {
  return text.size() >= ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}
bool isArchiveName(const std::string &path) { return endsWith(path, ".npz") || endsWith(path, ".safetensors"); }

struct Statistics {
  double min = 0, max = 0, mean = 0;
  int64_t finite = 0, nan = 0, inf = 0;
};

Statistics statisticsOf(const HostTensor &t) {
  Statistics s;
  double sum = 0;
  for (int64_t i = 0; i < t.elemCount(); ++i) {
    const double v = elementAt(t, i);
    if (std::isnan(v)) {
      ++s.nan;
    } else if (std::isinf(v)) {
      ++s.inf;
    } else {
      s.min = s.finite ? std::min(s.min, v) : v;
      s.max = s.finite ? std::max(s.max, v) : v;
      sum += v;
      ++s.finite;
    }
  }
  if (s.finite) s.mean = sum / static_cast<double>(s.finite);
  return s;
}

/// Nested brackets, a line for each innermost row.
void appendNested(std::string &text, const HostTensor &t, size_t axis, int64_t &next, int indent) {
  const DimVector &dims = t.shape().dim_vec();
  if (t.elemCount() == 0) { // [1000000000, 0] has that many rows, and nothing in them
    text += "[]";
    return;
  }
  if (axis == dims.size()) {
    text += elementText(t, next++);
    return;
  }
  text += "[";
  for (int64_t i = 0; i < dims[axis]; ++i) {
    const bool innermost = axis + 1 == dims.size();
    if (i) text += innermost ? ", " : ",\n" + std::string(static_cast<size_t>(indent) + 1, ' ');
    appendNested(text, t, axis + 1, next, indent + 1);
  }
  text += "]";
}

std::string flatValues(const HostTensor &t, int64_t count) {
  std::string text = "[";
  const int64_t shown = std::min(count, t.elemCount());
  for (int64_t i = 0; i < shown; ++i) text += (i ? ", " : "") + elementText(t, i);
  if (shown < t.elemCount()) text += shown ? ", ..." : "...";
  return text + "]";
}

Json elementJson(const HostTensor &t, int64_t i) {
  switch (t.dtype()) {
  case kBool: return t.as<uint8_t>()[i] != 0;
  case kInt64: return t.as<int64_t>()[i];
  case kUInt64: return t.as<uint64_t>()[i];
  default: break;
  }
  if (!holdsFractions(t.dtype())) return static_cast<int64_t>(elementAt(t, i));
  const double v = elementAt(t, i);
  return std::isfinite(v) ? Json(*parseReal(elementText(t, i))) : Json(realText(v));
}

Status writeTensor(const std::string &path, const NamedOutput &output) {
  if (endsWith(path, ".npz")) return writeNpz(path, {{output.name, &output.tensor}});
  if (endsWith(path, ".safetensors")) return writeSafetensors(path, {{output.name, &output.tensor}});
  if (endsWith(path, ".pb")) return writeOnnxTensor(path, output.name, output.tensor);
  if (endsWith(path, ".bin") || endsWith(path, ".raw")) return writeRaw(path, output.tensor);
  return writeNpy(path, output.tensor);
}

} // namespace

Option printOption(PrintMode *to) {
  auto read = [](const std::string &text) -> std::optional<PrintMode> {
    if (text == "none") return PrintMode{PrintMode::Kind::kNone, 0};
    if (text == "summary") return PrintMode{PrintMode::Kind::kSummary, 0};
    if (text == "all") return PrintMode{PrintMode::Kind::kAll, 0};
    const auto n = parseInteger<int64_t>(text);
    if (n && *n >= 0) return PrintMode{PrintMode::Kind::kFirst, *n};
    return std::nullopt;
  };
  return Option{"--print",
                0,
                "none|summary|all|N",
                "what is shown of each output (default summary); N: that many values",
                into(to, read, "summary"),
                true}
      .taking("none, summary, all or a number of values");
}

Result<std::vector<NamedOutput>> fetchAll(const Session &session) {
  std::vector<NamedOutput> results;
  for (const PortInfo &p : session.interface().outputs) {
    OPC_ASSIGN_OR_RETURN(HostTensor t, session.fetch(p.name));
    results.push_back({p.name, std::move(t)});
  }
  return results;
}

std::string sizeText(const SessionStats &stats) {
  std::string native;
  if (stats.nativeRegions)
    native = ", the plan's machine code for " + countText(stats.nativeRegions, "loop") + " (" +
             bytesText(stats.nativeBytes) + ")";
  else if (stats.nativeBytes)
    native = ", and of the plan's machine code none for a loop of these sizes";
  else if (stats.nativeImages)
    native = ", " + countText(stats.nativeImages, "image") + " of machine code, not run (--allow-native runs them)";
  const std::string views = stats.views ? " (" + countText(stats.views, "view") + ")" : "";
  return countText(stats.tasks, "task") + views + " on " + std::to_string(stats.streams) +
         (stats.streams == 1 ? " stream, " : " streams, ") + bytesText(stats.arenaBytes) + " of memory, " +
         bytesText(stats.constantBytes) + " of constants and variables" + native;
}

std::string outputText(const NamedOutput &output, PrintMode mode) {
  if (mode.kind == PrintMode::Kind::kNone) return "";
  const HostTensor &t = output.tensor;
  std::string head = output.name + "  " + typeText(t.dtype(), t.shape());
  if (mode.kind == PrintMode::Kind::kFirst) return head + "  " + flatValues(t, mode.count) + "\n";
  if (mode.kind == PrintMode::Kind::kAll) {
    std::string values;
    int64_t next = 0;
    appendNested(values, t, 0, next, 0);
    return head + "\n" + values + "\n";
  }
  if (t.elemCount() <= 8) return head + "  " + flatValues(t, 8) + "\n";
  const Statistics s = statisticsOf(t);
  if (s.finite)
    head += "  min " + roundedText(s.min, 6) + "  max " + roundedText(s.max, 6) + "  mean " + roundedText(s.mean, 6);
  if (s.nan) head += "  NaN " + countText(s.nan);
  if (s.inf) head += "  infinite " + countText(s.inf);
  return head + "\n";
}

Json outputJson(const NamedOutput &output, PrintMode mode) {
  const HostTensor &t = output.tensor;
  const Statistics s = statisticsOf(t);
  Json j = {{"name", output.name}, {"dtype", dtypeJson(t.dtype())}, {"shape", shapeJson(t.shape())}};
  j["min"] = s.finite ? Json(s.min) : Json(nullptr);
  j["max"] = s.finite ? Json(s.max) : Json(nullptr);
  j["mean"] = s.finite ? realJson(s.mean) : Json(nullptr);
  j["nan"] = s.nan;
  j["infinite"] = s.inf;
  if (mode.kind == PrintMode::Kind::kAll || mode.kind == PrintMode::Kind::kFirst) {
    const int64_t count = mode.kind == PrintMode::Kind::kAll ? t.elemCount() : std::min(mode.count, t.elemCount());
    Json values = Json::array();
    for (int64_t i = 0; i < count; ++i) values.push_back(elementJson(t, i));
    j["values"] = std::move(values);
  }
  return j;
}

Status checkOutputPath(const std::string &path, const std::string &inputPath) {
  auto error = [](const std::string &message, const std::string &help) {
    return Status(StatusCode::kUsage, "OPC0002", message).withHelp(help);
  };
  if (path == "-") return Status::ok();
  if (path.empty()) return error("the output's path is empty", "give a file, or - for standard output");
  std::error_code code;
  if (fs::is_directory(path, code)) return error("cannot write " + path + ": it is a directory", "name a file in it");
  const fs::path parent = fs::path(path).parent_path();
  if (!parent.empty() && !fs::is_directory(parent, code))
    return error("cannot write " + path + ": there is no directory " + parent.string(),
                 "make it first: mkdir -p " + parent.string());
  if (inputPath != "-" && fs::equivalent(path, inputPath, code))
    return error("the output " + path + " is the input", "give another name with -o");
  return tryWriting(path);
}

/// The ending in small letters where it is that of a kind of file that people know; other endings are parts of names,
/// as in results-0.5 and run.v2.
static std::string knownEnding(const std::string &path) {
  static const std::set<std::string> all = {
      ".7z",     ".bin",    ".bz2",         ".csv",  ".gz",  ".h5",  ".hdf5", ".html", ".jpeg",  ".jpg",
      ".json",   ".jsonl",  ".mat",         ".md",   ".npy", ".npz", ".onnx", ".pb",   ".pbtxt", ".pdf",
      ".pickle", ".pkl",    ".plan",        ".png",  ".pt",  ".pth", ".raw",  ".st",   ".svg",   ".tar",
      ".tgz",    ".tflite", ".safetensors", ".toml", ".tsv", ".txt", ".xz",   ".zip",  ".zst",   ".yaml"};
  std::string ending = fs::path(path).extension().string();
  for (char &c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return all.count(ending) ? fs::path(path).extension().string() : "";
}

Status checkEnding(const std::string &option, const std::string &path, const std::vector<std::string> &known) {
  const std::string ending = knownEnding(path);
  if (ending.empty() || std::find(known.begin(), known.end(), ending) != known.end()) return Status::ok();
  return Status(StatusCode::kUsage, "OPC0002", option + " writes no " + ending + " file: " + path)
      .withHelp("it writes " + joined(known, ", "));
}

Status checkEndingAs(const std::string &as, const std::string &path) {
  static const std::map<std::string, std::vector<std::string>> kEndings = {
      {"text", {".txt", ".md"}}, {"json", {".json"}}, {"csv", {".csv"}},          {"svg", {".svg"}},
      {"dot", {".dot", ".gv"}},  {"html", {".html"}}, {"onnx", {".onnx", ".pb"}}, {"model-explorer", {".json"}}};
  const auto known = kEndings.find(as);
  return known == kEndings.end() ? Status::ok() : checkEnding("-o with --as " + as, path, known->second);
}

Status checkOutputEndings(const std::vector<std::string> &named, const std::string &all) {
  for (const std::string &flag : named)
    if (const size_t equals = flag.find('='); equals != std::string::npos)
      OPC_RETURN_IF_ERROR(
          checkEnding("--output", flag.substr(equals + 1), {".npy", ".npz", ".safetensors", ".pb", ".bin", ".raw"}));
  std::error_code error;
  if (all.empty() || fs::exists(all, error) || endsWith(all, ".npy")) return Status::ok(); // found by plan()
  Status status = checkEnding("--outputs", all, {".npz", ".safetensors"});
  return status ? status : std::move(status).withHelp("it writes .npz and .safetensors, or a directory: " + all + "/");
}

Status makeOutputDirectory(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error == std::errc::no_space_on_device) return cannotWrite("make the directory", path, error.value());
  if (error || !fs::is_directory(path, error))
    return Status(StatusCode::kUsage, "OPC0002",
                  "cannot make the directory " + path + (error ? ": " + error.message() : ""));
  return tryWriting(path + "/opc");
}

bool isOutputDirectory(const std::string &path) {
  std::error_code error;
  return !path.empty() && (!isArchiveName(path) || fs::is_directory(path, error));
}

std::string outputPathIn(const std::string &directory, const std::string &name) {
  std::string path = directory;
  for (const std::string &part : splitAt(name, '/'))
    if (!part.empty()) // "." and ".." keep their look but lose their meaning
      path += "/" + (part == "." ? "%2E" : part == ".." ? "%2E%2E" : part);
  return path + ".npy";
}

Result<OutputFiles> OutputFiles::plan(const std::vector<std::string> &named, const std::string &all,
                                      const std::vector<PortInfo> &outputs, const std::string &inputPath, bool onnx) {
  OPC_RETURN_IF_ERROR(checkOutputEndings(named, all));
  OutputFiles files;
  const std::vector<std::string> names = namesOf(outputs);
  std::set<std::string> paths;
  for (const std::string &flag : named) {
    OPC_ASSIGN_OR_RETURN(auto pair, splitNamed(flag, "--output"));
    if (std::find(names.begin(), names.end(), pair.first) == names.end())
      return noSuchName("output", pair.first, names, "--output " + flag);
    OPC_RETURN_IF_ERROR(checkOutputPath(pair.second, inputPath));
    if (!paths.insert(pair.second).second)
      return Status(StatusCode::kUsage, "OPC0002", "two outputs are to be written to " + pair.second);
    files.files_.push_back(pair);
  }
  if (all.empty()) return files;
  if (!isOutputDirectory(all)) {
    OPC_RETURN_IF_ERROR(checkOutputPath(all, inputPath));
    files.archive_ = all;
    return files;
  }
  std::error_code error;
  if (endsWith(all, ".npy") && !fs::is_directory(all, error))
    return Status(StatusCode::kUsage, "OPC0002",
                  "--outputs takes a directory, or a file for several tensors, not " + all)
        .withHelp("for one output: --output NAME=" + all);
  if (Status s = makeOutputDirectory(all); !s)
    return std::move(s).withHelp("name a directory, or a file that ends in .npz");
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string &name = names[i];
    const std::string path = onnx ? all + "/output_" + std::to_string(i) + ".pb" : outputPathIn(all, name);
    if (!paths.insert(path).second)
      return Status(StatusCode::kUsage, "OPC0002", "two outputs are to be written to " + path)
          .withHelp("--outputs FILE.npz keeps them apart");
    fs::create_directories(fs::path(path).parent_path(), error);
    OPC_RETURN_IF_ERROR(checkOutputPath(path, inputPath));
    files.files_.push_back({name, path});
  }
  return files;
}

bool OutputFiles::usesStdout() const {
  return std::any_of(files_.begin(), files_.end(), [](const auto &f) { return f.second == "-"; });
}

Status OutputFiles::write(const std::vector<NamedOutput> &outputs) const {
  Status first; // one file that cannot be written takes no other with it
  const auto keep = [&first](Status s) {
    if (first && !s) first = std::move(s);
  };
  for (const auto &file : files_)
    for (const NamedOutput &o : outputs)
      if (o.name == file.first) keep(writeTensor(file.second, o));
  if (archive_.empty()) return first;
  NamedTensors tensors;
  for (const NamedOutput &o : outputs) tensors.push_back({o.name, &o.tensor});
  keep(endsWith(archive_, ".npz") ? writeNpz(archive_, tensors) : writeSafetensors(archive_, tensors));
  return first;
}

} // namespace opc::cli
