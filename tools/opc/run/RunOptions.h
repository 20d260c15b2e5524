// What one run was asked for: its options, typed, and checked against each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CommandLine.h"
#include "Expectations.h"
#include "FileUse.h"
#include "ModelFlags.h"
#include "OpFlags.h"
#include "OutputFiles.h"
#include "Pipeline.h"
#include "RunChecks.h"
#include "RunCut.h"
#include "RunRanks.h"
#include "RunTrap.h"
#include "TrainingOptions.h"
#include "ValueGiver.h"

#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

struct RunOptions {
  /// The options that fill this.
  std::vector<Option> options();
  /// What the single values do not say. After ranks.start(). Errors: OPC0001, OPC0002, OPC0003.
  Status check(const Invocation &invocation, const std::string &graphPath);

  /// Whether something looks at single tensors while they are made.
  bool observes() const {
    return !captures.empty() || !captureStats.empty() || trap.any() || observe.sync || observe.access;
  }
  /// Whether some outputs are asked for by name, and nothing looks at the rest of the graph.
  bool asksForOutputs() const {
    return !outputs.empty() && outputArchive.empty() && !expect.hasArchive() && !observes();
  }
  /// Whether a file of the run other than an output goes to standard output.
  bool usesStdout() const { return trace == "-" || report == "-" || captureStats == "-"; }
  int64_t runs() const { return warmup.value_or(0) + repeat.value_or(1); }
  /// For a session of this run; `onRanks`: as this process's part of the job.
  SessionOptions session(const Invocation &invocation, bool onRanks = true) const;
  /// Everything that such a run reads, for what it writes.
  FileUse filesRead(const Invocation &invocation) const;

  std::string graph; // the path
  ValueFlags values;
  // compilation
  CutFlags cut;
  CompileOptions compile;
  std::vector<std::string> shapes;
  OpFlags opFlags;
  ModelFlags model;
  bool noSimplify = false, noFuse = false;
  // execution
  RankJob ranks;
  TrainingOptions training;
  std::optional<int64_t> repeat, warmup;
  std::optional<uint64_t> maxMemory;
  std::vector<std::string> captures;
  std::string captureStats, trace, report;
  TrapKinds trap;
  ObserveKinds observe;
  // values out
  std::vector<std::string> outputs;
  std::string outputArchive, outputsAs = "npy", reference;
  PrintMode print;
  ExpectFlags expect;
  bool stats = false, profile = false, allowNative = false, allowTf32 = false;
  bool keepsGraph = false; // and its plan: the caller makes other runs of it
  std::string cpuAlone;    // the command, where it takes graphs to the CPU alone: "opc bench"

  /// Whether the graph that was read can run on the device. A plan names its own: a setting says nothing of it, and a
  /// flag must be the same. Errors: OPC0001, OPC0006, OPC0630.
  Status checkDeviceOf(const Invocation &invocation, const GraphInput &input);

private:
  Status checkTraining() const;
  Status checkMeaning() const;
  /// What sizes in a range do not go with.
  Status checkSizes() const;
};

} // namespace opc::cli
