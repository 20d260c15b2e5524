// --capture, --capture-stats: the tensors inside a graph.
// SPDX-License-Identifier: Apache-2.0
#include "RunCapture.h"

#include "NearestNames.h"
#include "OutputFiles.h"
#include "TensorSpec.h"
#include "ValueGiver.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fnmatch.h>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

bool fits(const std::string &glob, const std::string &name) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; }

Result<HostTensor> copyOf(const ObservedTensor &tensor, TaskData &data, size_t output) {
  Result<HostTensor> copy = HostTensor::createUninitialized(tensor.desc.data_type(), tensor.desc.shape());
  if (!copy || !copy->bytes()) return copy;
  OPC_ASSIGN_OR_RETURN(const void *bytes, data.output(output));
  std::memcpy(copy->data(), bytes, copy->bytes());
  return copy;
}

/// Statistics in one pass, in double: the moments by Welford's update, which does not cancel.
Json statisticsJson(const ObservedTask &task, const ObservedTensor &tensor, const HostTensor &t, int64_t step) {
  double low = 0, high = 0, mean = 0, m2 = 0, squares = 0;
  int64_t finite = 0, nan = 0, inf = 0, zeros = 0, denormal = 0;
  const double smallest = elementType(tensor.desc.data_type()).smallestNormal;
  for (int64_t i = 0; i < t.elemCount(); ++i) {
    const double v = elementAt(t, i);
    if (std::isnan(v)) {
      ++nan;
    } else if (std::isinf(v)) {
      ++inf;
    } else {
      low = finite ? std::min(low, v) : v;
      high = finite ? std::max(high, v) : v;
      ++finite;
      const double delta = v - mean;
      mean += delta / static_cast<double>(finite);
      m2 += delta * (v - mean);
      squares += v * v;
      zeros += v == 0;
      denormal += IsFloatingDataType(t.dtype()) && v != 0 && std::abs(v) < smallest;
    }
  }
  auto number = [&](double v) { return finite ? realJson(v) : Json(nullptr); };
  return {{"tensor", tensor.name},
          {"op", task.name},
          {"type", task.type},
          {"src", task.where.text()},
          {"step", step},
          {"dtype", dtypeJson(t.dtype())},
          {"shape", shapeJson(t.shape())},
          {"min", number(low)},
          {"max", number(high)},
          {"mean", number(mean)},
          {"std", number(finite ? std::sqrt(m2 / static_cast<double>(finite)) : 0)},
          {"l2", number(std::sqrt(squares))},
          {"zeros", zeros},
          {"denormal", denormal},
          {"nan", nan},
          {"inf", inf}};
}

Status noSuchTensor(const std::string &glob, const std::vector<std::string> &names, const std::string &text) {
  const std::vector<std::string> near = nearestNames(glob, names, 1);
  return Status(StatusCode::kUsage, "OPC0005", "no task makes a tensor '" + glob + "' (--capture " + text + ")")
      .withHelp(
          (near.empty() ? "" : "did you mean " + near[0] + "? ") +
          "simplification merges and removes tensors, unless --no-simplify is given; a plan has those that it was "
          "compiled with");
}

} // namespace

Status RunCapture::open(const std::vector<std::string> &globs, const std::string &statsPath,
                        const std::vector<ObservedTask> &tasks, FileUse *files) {
  std::vector<std::string> names;
  std::set<std::string> paths;
  for (const ObservedTask &t : tasks)
    for (const ObservedTensor &out : t.outputs) names.push_back(out.name);
  for (const std::string &text : globs) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return Status(StatusCode::kUsage, "OPC0003", "--capture takes GLOB=DIR, not '" + text + "'")
          .withHelp("--capture 'fc*=tensors/' writes each tensor whose name fits");
    Target target{text.substr(0, equals), text.substr(equals + 1), {}};
    bool any = false;
    for (const std::string &n : names) {
      if (!fits(target.glob, n)) continue;
      any = true;
      paths.insert(outputPathIn(target.directory, n));
    }
    if (!any) return noSuchTensor(target.glob, names, text);
    OPC_RETURN_IF_ERROR(makeOutputDirectory(target.directory));
    targets_.push_back(std::move(target));
  }
  for (const std::string &path : paths) OPC_RETURN_IF_ERROR(files->writes(path, "--capture"));
  statsPath_ = statsPath;
  if (statsPath.empty()) return Status::ok();
  OPC_RETURN_IF_ERROR(checkOutputPath(statsPath, "-"));
  stats_ = std::make_unique<AtomicFile>();
  return stats_->open(statsPath);
}

Status RunCapture::writeTensor(Target &target, const ObservedTensor &tensor, const HostTensor &value) {
  const std::string path = outputPathIn(target.directory, tensor.name);
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  target.written.insert(path);
  return writeNpy(path, value);
}

Status RunCapture::after(const ObservedTask &task, int64_t step, TaskData &data) {
  for (size_t i = 0; i < task.outputs.size(); ++i) {
    const ObservedTensor &out = task.outputs[i];
    bool wanted = stats_ != nullptr;
    for (const Target &t : targets_) wanted |= fits(t.glob, out.name);
    if (!wanted) continue;
    Result<HostTensor> value = copyOf(out, data, i);
    if (!value) return Status(value.status()).withContext("capturing " + out.name);
    std::lock_guard<std::mutex> guard(lock_);
    for (Target &t : targets_)
      if (fits(t.glob, out.name))
        if (Status s = writeTensor(t, out, *value); !s) return std::move(s).withContext("capturing " + out.name);
    if (!stats_) continue;
    const std::string line =
        statisticsJson(task, out, *value, step).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    OPC_RETURN_IF_ERROR(stats_->write(line.data(), line.size()));
    ++statsLines_;
  }
  return Status::ok();
}

Status RunCapture::finish(std::vector<std::string> *notes) {
  for (const Target &t : targets_)
    notes->push_back("captured " + std::to_string(t.written.size()) +
                     (t.written.size() == 1 ? " tensor in " : " tensors in ") + t.directory);
  if (!stats_) return Status::ok();
  notes->push_back("statistics of " + std::to_string(statsLines_) + " tensors in " + statsPath_);
  return stats_->commit();
}

} // namespace opc::cli
