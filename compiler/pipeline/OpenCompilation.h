// The phase that is under way on this thread, kept where a handler of crashes finds it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "CompilationPoint.h"
#include "GraphFacts.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace opc {

/// While one lives, its phase is the thread's compilationPoint(); afterwards it still is, unless ends() has been
/// called.
class OpenPhase {
public:
  /// `before` compiles the graph anew up to the phase and gives irBeforePoint().
  OpenPhase(const char *phase, std::function<std::string()> before);
  ~OpenPhase();
  OpenPhase(const OpenPhase &) = delete;
  OpenPhase &operator=(const OpenPhase &) = delete;

  /// It has done its work, or said what is wrong with the graph.
  void ends();
  /// An internal error has ended it: keeps the IR before it.
  void breaksOff();

private:
  friend std::string irBeforePoint();
  std::function<std::string()> before_;
  const OpenPhase *outer_;
};

/// Notes the name of each pass as it begins, and its time in seconds after `made`.
class PassWatch final : public mlir::PassInstrumentation {
public:
  using Clock = std::chrono::steady_clock;
  PassWatch(Clock::time_point made, std::vector<PassFacts> *passes) : made_(made), passes_(passes) {}
  void runBeforePass(mlir::Pass *pass, mlir::Operation *) override;
  void runAfterPass(mlir::Pass *pass, mlir::Operation *) override { ends(pass); }
  void runAfterPassFailed(mlir::Pass *pass, mlir::Operation *) override { ends(pass); }

private:
  double now() const { return std::chrono::duration<double>(Clock::now() - made_).count(); }
  void ends(mlir::Pass *pass);

  const Clock::time_point made_;
  std::vector<PassFacts> *passes_;
  std::vector<size_t> open_; // in `passes_`: passes may run others
};

} // namespace opc
