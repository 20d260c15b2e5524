// Diagnostics and errors as text for people: the line of the file, a caret, the operands, the way out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"

#include "opc/Status.h"

#include <string>
#include <vector>

namespace opc::cli {

const char *severityName(Severity severity);

struct TextStyle {
  bool color = false;
  int width = 80;
};

/// All diagnostics in order, then "3 errors in mlp.pbtxt" when there is an error. `errorCount` may exceed what is
/// listed.
std::string diagnosticsText(const std::vector<Diagnostic> &diagnostics, size_t errorCount, const SourceText &source,
                            const TextStyle &style);

/// One diagnostic. The source line is shown when the range is known and `source` is the file it names. An error ends
/// with where more is to be read, unless `pointsToMore` is false.
std::string diagnosticText(const Diagnostic &diagnostic, const SourceText &source, const TextStyle &style,
                           bool pointsToMore = true);

/// A runtime or usage error: message, context chain, help, and where to read more.
std::string statusText(const Status &status, bool color);

} // namespace opc::cli
