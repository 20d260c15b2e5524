// Why a file cannot be written: said the same way everywhere, and found before the work that it is for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>

namespace opc {

/// OPC0707: "cannot `doing` PATH: " and what `error`, an errno, means; "-" is the standard output. A disk that is full
/// or broken has failed the run (kExecution, exit code 5); any other reason lies in the path that was given (kUsage).
Status cannotWrite(const std::string &doing, const std::string &path, int error);

/// Whether a file can be made at `path`, found by making one beside it and removing it. What is there stays as it is;
/// devices and pipes are asked for their permissions. Errors: OPC0707.
Status tryWriting(const std::string &path);

/// The file that `path` stands for: what symbolic links lead to, which need not exist. Devices and pipes are left
/// as they are, and so are links of other users in folders where everybody may make them.
std::string followLinks(const std::string &path);

} // namespace opc
