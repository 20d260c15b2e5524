// The operators in Python that a command line brings: of the manifest beside a graph, of folders that the user named.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>
#include <vector>

namespace opc::cli {

/// Whether each of the folders of --op-path is one. Errors: OPC0002.
Status checkOpPaths(const std::vector<std::string> &folders);

/// `plugins` and what stands for the operators in Python: the manifest beside `graph` (a graph or plan, "" for none),
/// else each of the folders of --op-path. From now on code may run from these folders, and from no others.
std::vector<std::string> withPythonOps(std::vector<std::string> plugins, const std::vector<std::string> &folders,
                                       const std::string &graph);

} // namespace opc::cli
