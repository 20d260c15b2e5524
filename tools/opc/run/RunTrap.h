// --trap nan,inf,denormal: stops at the first op that makes such a value, and leaves it behind as a case that runs
// alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Option.h"
#include "Session.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

/// What is looked for.
struct TrapKinds {
  bool nan = false, inf = false, denormal = false;
  bool any() const { return nan || inf || denormal; }
};
/// Kinds with commas between; nothing for a text that is none.
std::optional<TrapKinds> readTrapKinds(const std::string &text);
/// --trap.
Option trapOption(TrapKinds *to);

class RunTrap final : public RunObserver {
public:
  /// Where the ops come from: the file that is run, libraries, and folders of Python sources.
  struct Origin {
    std::string graph;
    std::vector<std::string> plugins, opPaths;
  };
  RunTrap(TrapKinds kinds, Origin origin) : kinds_(kinds), origin_(std::move(origin)) {}

  /// Keeps the inputs that the task overwrites: when the value is found they are gone.
  Status before(const ObservedTask &task, int64_t step, TaskData &data) override;
  /// OPC0620 with the op, its place and the first bad element.
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override;
  bool wantsPrepared() const override { return true; }

  bool fired() const { return fired_.has_value(); }
  /// What a run leaves that failed with `status`: the op that fired as a case of its own, and where it is, in the help;
  /// of a graph that is such a case already the help says that. Without such an op `status` as it is.
  Status withCase(Session &session, const Status &status) const;

private:
  /// Writes the op that fired with its inputs: a new folder opc-trap-NAME in the working directory with graph.pbtxt,
  /// inputs/*.npy, run.sh and the manifest of operators in Python that the file has. Gives the folder's name.
  Result<std::string> dump(Session &session) const;
  struct Fired {
    uint32_t task;
    std::vector<HostTensor> inputs;
  };
  Result<HostTensor> inputOf(const ObservedTask &task, size_t i, TaskData &data);

  const TrapKinds kinds_;
  const Origin origin_;
  std::mutex lock_;
  std::map<std::pair<uint32_t, size_t>, HostTensor> kept_; // (stream, input)
  std::optional<Fired> fired_;
};

} // namespace opc::cli
