// Files that are found beside a graph by their names alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FileBytes.h"

namespace opc::cli {

/// "a pipe", "a folder", "a device": what a path leads to that is there and is no regular file; "" otherwise.
std::string otherThanFile(const std::string &path);

/// OPC0706 for what is there and is no regular file: nobody has named it, and a pipe is read until another process
/// ends it.
Status checkRegular(const std::string &path);

/// A regular file's bytes. Errors: OPC0706.
Result<FileBytes> openBeside(const std::string &path);

} // namespace opc::cli
