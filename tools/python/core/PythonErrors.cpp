// Statuses and diagnostics become exceptions whose text is what the command prints.
// SPDX-License-Identifier: Apache-2.0
#include "PythonErrors.h"

#include "DiagnosticJson.h"
#include "DiagnosticText.h"
#include "ExitCodes.h"
#include "PythonWords.h"
#include "TextParts.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

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

/// Findings of a graph that Python made point into its text, which nobody has written: the lines of Python that made
/// the ops take its place, or the op's name alone.
void showPython(const std::string &generated, std::vector<Diagnostic> *found) {
  for (Diagnostic &d : *found) {
    for (Diagnostic::Operand &o : d.operands)
      if (o.range.file == generated) o.range = {};
    if (!d.range.file.empty() && d.range.file != generated) continue;
    d.range = {};
    const SourceRange made = placeOf(d.pythonLoc);
    if (made.file.empty()) continue;
    d.range = made;
    d.notes.erase(std::remove(d.notes.begin(), d.notes.end(), d.pythonNote()), d.notes.end());
  }
}

/// As diagnosticsText() has it, of lines of several files.
std::string textOf(const std::vector<Diagnostic> &found, size_t errorCount, const std::string &graph) {
  std::string text;
  size_t shown = 0;
  for (const Diagnostic &d : found) {
    if (!text.empty() && d.severity == Severity::kError) text += "\n";
    shown += d.severity == Severity::kError;
    text += cli::diagnosticText(d, sourceAt(d.range), {false, 120}, true);
  }
  return text + "\n" + counted(std::max(errorCount, shown), "error") + " in " + graph +
         (errorCount > shown ? "; the first " + std::to_string(shown) + " are shown" : "") + "\n";
}

bool isGenerated(const SourceText &source) { return source.name.size() > 2 && source.name.front() == '<'; }

} // namespace

SourceRange placeOf(const std::string &place) {
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos) return {};
  SourceRange range;
  const char *end = place.data() + place.size();
  if (std::from_chars(place.data() + colon + 1, end, range.line).ptr != end || range.line == 0) return {};
  range.file = place.substr(0, colon);
  range.column = range.endColumn = 1;
  range.endLine = range.line;
  return range;
}

SourceText sourceAt(const SourceRange &range) {
  if (!range.known()) return {};
  std::ifstream file(range.file);
  std::stringstream text;
  if (file) text << file.rdbuf();
  return {range.file, text.str()};
}

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
  std::vector<Diagnostic> found = inPythonWords(all);
  if (isGenerated(source)) {
    showPython(source.name, &found);
    raise(codeOf(found), textOf(found, errorCount, source.name),
          cli::failureJson(found, errorCount, cli::exitCodeOf(worst)), worst);
  }
  raise(codeOf(found), cli::diagnosticsText(found, errorCount, source, {false, 120}),
        cli::failureJson(found, errorCount, cli::exitCodeOf(worst)), worst);
}

void warn(const std::vector<Diagnostic> &found, const SourceText &source) {
  std::vector<Diagnostic> all = inPythonWords(found);
  if (isGenerated(source)) showPython(source.name, &all);
  for (const Diagnostic &d : all) {
    if (d.severity == Severity::kError) continue;
    const std::string text = cli::diagnosticText(d, isGenerated(source) ? sourceAt(d.range) : source, {false, 120});
    py::module_::import("opc._errors").attr("warn")(d.code, textOf(text), d.severity == Severity::kWarning);
  }
}

} // namespace opc::python
