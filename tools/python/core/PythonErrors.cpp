// Statuses and diagnostics become exceptions whose text is what the command prints.
// SPDX-License-Identifier: Apache-2.0
#include "PythonErrors.h"

#include "DiagnosticJson.h"
#include "DiagnosticText.h"
#include "ExitCodes.h"
#include "PythonWords.h"

namespace py = pybind11;

namespace opc::python {
namespace {

[[noreturn]] void raise(const std::string &code, std::string text, const std::string &json, StatusCode failure) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const py::object made = py::module_::import("opc._errors")
                              .attr("make")(textOf(code), textOf(text), textOf(json), cli::exitCodeOf(failure));
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(made.ptr())), made.ptr());
  throw py::error_already_set();
}

const char *codeOf(const std::vector<Diagnostic> &found) {
  for (const Diagnostic &d : found)
    if (d.severity == Severity::kError) return d.code.c_str();
  return "";
}

} // namespace

py::str textOf(const std::string &text) {
  PyObject *made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(made);
}

void raise(const Status &failure) {
  const Status status = inPythonWords(failure);
  raise(status.id(), cli::statusText(status, false), cli::failureJson(status, cli::exitCodeOf(status.code())),
        status.code());
}

void raise(const std::vector<Diagnostic> &all, size_t errorCount, StatusCode worst, const SourceText &source) {
  const std::vector<Diagnostic> found = inPythonWords(all);
  raise(codeOf(found), cli::diagnosticsText(found, errorCount, source, {false, 120}),
        cli::failureJson(found, errorCount, cli::exitCodeOf(worst)), worst);
}

void warn(const std::vector<Diagnostic> &found, const SourceText &source) {
  for (const Diagnostic &d : inPythonWords(found)) {
    if (d.severity == Severity::kError) continue;
    const std::string text = cli::diagnosticText(d, source, {false, 120});
    py::module_::import("opc._errors").attr("warn")(d.code, textOf(text), d.severity == Severity::kWarning);
  }
}

} // namespace opc::python
