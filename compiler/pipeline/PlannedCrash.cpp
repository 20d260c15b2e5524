// Crashes on demand.
// SPDX-License-Identifier: Apache-2.0
#include "PlannedCrash.h"

#include "Graph.h"
#include "GraphPass.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/ErrorHandling.h"

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace opc {
namespace {

/// Deep enough for any stack; the result depends on every call, so that none can be left out.
int callWithoutEnd(volatile int *depth) { // NOLINT(misc-no-recursion)
  volatile int frame[1024];
  frame[*depth % 1024] = *depth;
  ++*depth;
  return callWithoutEnd(depth) + frame[*depth % 1024];
}

/// An op that has lost an operand.
void spoil(mlir::ModuleOp module) {
  for (mlir::Operation &op : graphBlock(module))
    if (op.getNumOperands() > 0 && !op.hasTrait<mlir::OpTrait::IsTerminator>()) return op.eraseOperand(0);
}

struct PlannedCrashPass : mlir::PassWrapper<PlannedCrashPass, GraphPass> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlannedCrashPass)
  explicit PlannedCrashPass(std::string h) : how(std::move(h)) {}
  llvm::StringRef getArgument() const final { return "planned-crash"; }
  void runOnGraph() override {
    if (how == "invalid") return spoil(getOperation());
    crashAs(how);
  }
  std::string how;
};

} // namespace

std::string plannedCrash(Phase phase, const std::string &graph) {
  const char *plan = std::getenv("OPC_TEST_CRASH");
  if (!plan || !*plan) return "";
  const std::string_view asked = plan;
  const size_t colon = asked.find(':');
  if (colon == std::string_view::npos || asked.substr(0, colon) != phaseName(phase)) return "";
  const std::string_view rest = asked.substr(colon + 1), how = rest.substr(0, rest.find(':'));
  if (how.size() < rest.size() && graph.find(rest.substr(how.size() + 1)) == std::string::npos) return "";
  const size_t mark = how.find('@');
  if (mark != std::string_view::npos) {
    static std::atomic<int> reached = 0;
    const std::string_view number = how.substr(mark + 1);
    int wanted = 0;
    std::from_chars(number.data(), number.data() + number.size(), wanted);
    if (++reached != wanted) return "";
  }
  return std::string(how.substr(0, mark));
}

void crashAs(const std::string &how) {
  if (how == "throw") throw std::runtime_error("planned by OPC_TEST_CRASH");
  if (how == "throw-int") throw 42; // NOLINT(hicpp-exception-baseclass)
  if (how == "fatal") llvm::report_fatal_error("planned by OPC_TEST_CRASH");
  if (how == "segfault") (void)std::raise(SIGSEGV);
  if (how == "abort") (void)std::raise(SIGABRT);
  if (how == "overflow") {
    volatile int depth = 0;
    (void)callWithoutEnd(&depth);
  }
}

std::unique_ptr<mlir::Pass> createPlannedCrash(std::string how) {
  return std::make_unique<PlannedCrashPass>(std::move(how));
}

} // namespace opc
