// The data sets of a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BatchLoader.h"
#include "TrainingOptions.h"

#include <string>
#include <vector>

namespace opc::cli {

/// Each in the element type of its input, cast when that was asked for. `flag` is named in errors. Errors: OPC0005 (no
/// such input), OPC0703, those of reading.
Result<std::vector<BatchLoader::Source>> openDataSets(const std::vector<DataSet> &dataSets, const Session &session,
                                                      const std::string &flag, bool cast);

} // namespace opc::cli
