// Messages name the options of the command; in Python they name parameters and functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"
#include "opc/Status.h"

#include <vector>

namespace opc::python {

std::string inPythonWords(std::string text);
Status inPythonWords(const Status &status);
std::vector<Diagnostic> inPythonWords(std::vector<Diagnostic> found);

} // namespace opc::python
