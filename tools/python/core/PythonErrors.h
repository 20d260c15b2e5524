// Failures of opc as Python exceptions: opc.Error and its subclasses (tools/python/opc/_errors.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"
#include "opc/Status.h"

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

namespace opc::python {

/// Text as Python's; bytes that are no UTF-8, which damaged files have, become U+FFFD.
pybind11::str textOf(const std::string &text);

/// Throws the exception of a failure. The GIL is held.
[[noreturn]] void raise(const Status &status);
/// Of what a compilation has found; `worst` is the class of its errors.
[[noreturn]] void raise(const std::vector<Diagnostic> &found, size_t errorCount, StatusCode worst,
                        const SourceText &source);

inline void check(const Status &status) {
  if (!status) raise(status);
}
/// The value of a result, or its exception.
template <class T> T valueOf(Result<T> result) {
  if (!result) raise(result.status());
  return *std::move(result);
}

/// "train.py:41" as a range; unknown where it is none.
SourceRange placeOf(const std::string &place);
/// The file of a range, to show its line; empty where it cannot be read.
SourceText sourceAt(const SourceRange &range);

/// Warnings and notes of a compilation that went well, as Python warnings.
void warn(const std::vector<Diagnostic> &found, const SourceText &source);

} // namespace opc::python
