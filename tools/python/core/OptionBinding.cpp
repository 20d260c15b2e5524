// What the package checks by itself: the ranges of the command's options, and failures as the command words them.
// SPDX-License-Identifier: Apache-2.0
#include "Bindings.h"

#include "DiagnosticJson.h"
#include "DiagnosticText.h"
#include "ExitCodes.h"
#include "OptionRanges.h"

namespace py = pybind11;

namespace opc::python {
namespace {

StatusCode classOf(int exitCode) {
  for (const StatusCode c :
       {StatusCode::kUsage, StatusCode::kInvalidGraph, StatusCode::kUnsupported, StatusCode::kExecution})
    if (cli::exitCodeOf(c) == exitCode) return c;
  return StatusCode::kInternal;
}

/// (name, "a number from 1 to 4096", least, most, is whole, least is not allowed itself).
py::list numberRanges() {
  py::list all;
  double real = 0;
  for (const cli::NumberRange *r : cli::ranges::kAll)
    all.append(py::make_tuple(r->name, cli::within({r->name, 0, "N", "", &real}, *r).takes(), r->least, r->most,
                              r->isWhole, r->isAbove));
  return all;
}

} // namespace

void bindOptions(py::module_ &module) {
  module.def("number_ranges", &numberRanges);
  // The text that the command prints, and its JSON.
  module.def("failure", [](int exitCode, const std::string &code, const std::string &message, const std::string &help) {
    const Status status = Status(classOf(exitCode), code, message).withHelp(help);
    return py::make_tuple(cli::statusText(status, false), cli::failureJson(status, exitCode));
  });
}

} // namespace opc::python
