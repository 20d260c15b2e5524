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
  if (!pass->getArgument().empty()) point.pass = pass->getArgument().data();
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
