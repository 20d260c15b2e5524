// What makes a training run the one that a checkpoint is of: notes on its data and settings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Tensor.h"

#include <map>
#include <string>

namespace opc::cli {

/// The key of a checkpoint's note on what an input was fed.
std::string contentKey(const std::string &input);
bool isContentKey(const std::string &key);
/// What a tensor holds, for such a note: its type, and XXH64 of its elements. Of more than 1 GiB, blocks all over them:
/// a run need not wait until all of a data set has been read.
std::string contentOf(const user_op::TensorDesc &desc, const void *data);

/// The key of a checkpoint's note on what its graph computes.
constexpr char kGraphKey[] = "graph";

/// OPC0712 unless `mine` is what a checkpoint's `notes` say of its run. What they do not say is not compared.
Status checkSameRun(const std::string &path, const std::map<std::string, std::string> &notes,
                    const std::map<std::string, std::string> &mine);

} // namespace opc::cli
