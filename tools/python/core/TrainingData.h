// Data sets from Python: arrays or files, as batches of a session.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BatchLoader.h"

#include <pybind11/pybind11.h>

#include <map>
#include <string>

namespace opc::python {

/// `data`: input -> array, or the name of a file. `contents`, where it is given, receives what they hold.
BatchLoader batchesOf(const Session &session, const pybind11::dict &data, bool shuffle, uint64_t seed,
                      std::map<std::string, std::string> *contents);

} // namespace opc::python
