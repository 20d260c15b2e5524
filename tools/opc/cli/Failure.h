// Why a command ends: an error of its own, or what a compilation has found. One way up for both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"
#include "opc/Status.h"

#include <utility>
#include <variant>
#include <vector>

namespace opc::cli {

struct Failure {
  Failure(Status s) : status(std::move(s)) {}
  /// `worst` is the class of the findings' errors, of which there may be more than were kept.
  Failure(std::vector<Diagnostic> found, size_t errors, StatusCode worst, SourceText text)
      : errorClass(worst), findings(std::move(found)), errorCount(errors), source(std::move(text)) {}

  Status status; // without findings
  StatusCode errorClass = StatusCode::kOk;
  std::vector<Diagnostic> findings;
  size_t errorCount = 0;
  SourceText source;
};

/// A value, or why there is none.
template <class T> class [[nodiscard]] Outcome {
public:
  Outcome(T value) : held_(std::move(value)) {}
  Outcome(Status status) : held_(Failure(std::move(status))) {}
  Outcome(Failure failure) : held_(std::move(failure)) {}
  bool isOk() const { return held_.index() == 0; }
  explicit operator bool() const { return isOk(); }
  const Failure &status() const { return std::get<1>(held_); } // called so for OPC_ASSIGN_OR_RETURN
  T &operator*() & { return std::get<0>(held_); }
  T &&operator*() && { return std::get<0>(std::move(held_)); }
  T *operator->() { return &std::get<0>(held_); }

private:
  std::variant<T, Failure> held_;
};

} // namespace opc::cli
