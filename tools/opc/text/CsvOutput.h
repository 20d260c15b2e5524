// Records as comma-separated values (RFC 4180, but for the ends of lines), for spreadsheets and data frames.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"

#include <string>

namespace opc::cli {

/// A line of names, and one for each object of `rows`: the keys of all of them in the order in which they come. Text as
/// it is, nothing for null, lists and objects as JSON.
std::string csvText(const Json &rows);

} // namespace opc::cli
