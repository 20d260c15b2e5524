// --capture, --capture-stats: the tensors inside a graph, written while it runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FileUse.h"
#include "JsonOutput.h"
#include "Session.h"

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace opc::cli {

/// Writes each tensor as soon as it is made, before its memory is used again; keeps none.
class RunCapture final : public RunObserver {
public:
  /// `globs`: "GLOB=DIR" flags (the directory follows the last '='); `statsPath`: a file of JSON lines, or empty.
  /// Checks that each glob names a tensor of the plan (OPC0005) and that files can be written (OPC0002), which are none
  /// of `files`.
  Status open(const std::vector<std::string> &globs, const std::string &statsPath,
              const std::vector<ObservedTask> &tasks, FileUse *files);
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override;
  bool wantsPrepared() const override { return true; }
  /// Completes the file of statistics, and notes how much was written.
  Status finish(std::vector<std::string> *notes);

private:
  struct Target {
    std::string glob, directory;
    std::set<std::string> written;
  };
  Status writeTensor(Target &target, const ObservedTensor &tensor, const HostTensor &value);

  std::vector<Target> targets_;
  std::string statsPath_;
  std::unique_ptr<AtomicFile> stats_;
  std::mutex lock_;
  uint64_t statsLines_ = 0;
};

} // namespace opc::cli
