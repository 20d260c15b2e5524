// Where the compiler is.
// SPDX-License-Identifier: Apache-2.0
#include "OpenCompilation.h"

namespace opc {
namespace {

thread_local CompilationPoint point;
thread_local std::string kept;
thread_local const OpenPhase *openPhase = nullptr;

} // namespace

OpenPhase::OpenPhase(const char *phase, std::function<std::string()> before)
    : before_(std::move(before)), outer_(openPhase) {
  point = {phase, nullptr};
  openPhase = this;
}

OpenPhase::~OpenPhase() { openPhase = outer_; }

void OpenPhase::ends() {
  if (openPhase == this) point = {};
}

void OpenPhase::breaksOff() {
  const CompilationPoint here = point;
  openPhase = nullptr; // what is compiled now is no part of it
  try {
    kept = before_();
  } catch (...) { // as it broke off before
    kept.clear();
  }
  openPhase = this;
  point = here;
}

void PassWatch::runBeforePass(mlir::Pass *pass, mlir::Operation *) {
  if (pass->getArgument().empty()) return; // MLIR's own, which runs others
  point.pass = pass->getArgument().data();
  open_.push_back(passes_->size());
  passes_->push_back({pass->getArgument().str(), now(), 0});
}

void PassWatch::ends(mlir::Pass *pass) {
  if (pass->getArgument().empty()) return;
  PassFacts &ended = (*passes_)[open_.back()];
  open_.pop_back();
  ended.seconds = now() - ended.start;
}

CompilationPoint compilationPoint() noexcept { return point; }

std::string irBeforePoint() {
  if (!openPhase) return kept;
  const OpenPhase *phase = openPhase;
  openPhase = nullptr;
  return phase->before_();
}

void clearCompilationPoint() {
  point = {};
  kept.clear();
}

} // namespace opc
