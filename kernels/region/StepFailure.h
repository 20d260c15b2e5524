// Which op of a task of several has failed: the SDK's wrappers keep nothing of an exception but its text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

namespace opc {

/// What the op at `step` has thrown.
struct StepFailure {
  size_t step;
  std::exception_ptr what;
};

/// The step that has ended the task which ran last on this thread, if it had several and one of them did.
inline thread_local std::optional<size_t> failedStep;

/// Runs `loop`, on any thread; `*step` says where it is.
template <class F> void watchSteps(const size_t *step, const F &loop) {
  try {
    loop();
  } catch (...) {
    throw StepFailure{*step, std::current_exception()};
  }
}

/// Runs a task of several ops. What its threads throw leaves it as the op has thrown it, and `failedStep` says which.
template <class F> void runSteps(const F &task) {
  failedStep.reset();
  try {
    task();
  } catch (const StepFailure &failure) {
    failedStep = failure.step;
    std::rethrow_exception(failure.what);
  }
}

} // namespace opc
