// The findings of a compilation: in the order of the source, at most so many, with the class of the worst.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"

#include "opc/Status.h"

namespace opc {

/// The exit-code class of an error code of the compiler.
StatusCode classOf(const std::string &code);

/// The codes that come as warnings, some of them as errors, too. tests/lint holds the list against the sources.
inline constexpr const char *kWarningCodes[] = {"OPC0212", "OPC0311", "OPC0315", "OPC0413", "OPC0505", "OPC0510"};

class DiagnosticList {
public:
  explicit DiagnosticList(size_t maxErrors) : maxErrors_(maxErrors) {}

  /// What a phase reports, until settle() takes it.
  std::vector<Diagnostic> *incoming() { return &incoming_; }
  /// Takes what was reported: sorted by position, errors beyond the limit only counted. Returns whether there was an
  /// error.
  bool settle();

  const std::vector<Diagnostic> &list() const { return list_; }
  size_t errors() const { return errors_; }
  StatusCode worst() const { return worst_; }

private:
  const size_t maxErrors_;
  std::vector<Diagnostic> incoming_, list_;
  size_t errors_ = 0;
  StatusCode worst_ = StatusCode::kOk;
};

} // namespace opc
