// How a kernel that binds graphs of its own gets weights one at a time: of those that it packs, one is in memory twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <cstddef>
#include <utility>

namespace opc::runtime {

/// The inputs of a task while its kernel is made. A constant one may not have been written yet.
class LateInputs {
public:
  virtual ~LateInputs() = default;
  /// Writes the task's input, if that is still to be done: before a kernel reads it.
  virtual Status fill(size_t input) = 0;
  /// No kernel of the task's graphs reads the input again, unless the task is bound again.
  virtual void packed(size_t input) = 0;

  /// Of the task whose kernel is being made in this thread; null where all inputs are there, and stay.
  static LateInputs *current() { return current_; }

  /// While it lives, these are the current ones.
  class Scope {
  public:
    explicit Scope(LateInputs *inputs) : outer_(std::exchange(current_, inputs)) {}
    ~Scope() { current_ = outer_; }
    Scope(const Scope &) = delete;
    Scope &operator=(const Scope &) = delete;

  private:
    LateInputs *outer_;
  };

private:
  inline static thread_local LateInputs *current_ = nullptr;
};

} // namespace opc::runtime
