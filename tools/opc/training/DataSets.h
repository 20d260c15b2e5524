// The data sets of a run, and what a checkpoint says of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "BatchLoader.h"
#include "TrainingOptions.h"

#include <map>
#include <string>
#include <vector>

namespace opc::cli {

/// Each in the element type of its input, cast when that was asked for. `flag` is named in errors. Errors: OPC0005 (no
/// such input), OPC0703, those of reading.
Result<std::vector<BatchLoader::Source>> openDataSets(const std::vector<DataSet> &dataSets, const Session &session,
                                                      const std::string &flag, bool cast);

/// The key of a checkpoint's note on what an input was fed.
std::string contentKey(const std::string &input);
bool isContentKey(const std::string &key);
/// What a tensor holds, for such a note: its type, and XXH64 of its elements. Of more than 1 GiB, blocks all over them:
/// a run need not wait until all of a data set has been read.
std::string contentOf(const user_op::TensorDesc &desc, const void *data);

/// OPC0712 unless `mine` is what a checkpoint's `notes` say of its run. What they do not say is not compared.
Status checkSameRun(const std::string &path, const std::map<std::string, std::string> &notes,
                    const std::map<std::string, std::string> &mine);

} // namespace opc::cli
