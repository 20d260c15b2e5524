// Failures as JSON documents (docs/cli.md, "Errors as JSON").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"

#include "opc/Status.h"

#include <string>
#include <vector>

namespace opc::cli {

/// {"schema":1,"exit":3,"errors":1,"diagnostics":[{...}]}.
std::string failureJson(const std::vector<Diagnostic> &diagnostics, size_t errorCount, int exitCode);
std::string failureJson(const Status &status, int exitCode);

} // namespace opc::cli
