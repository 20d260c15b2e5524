// Files that are found beside a graph by their names alone.
// SPDX-License-Identifier: Apache-2.0
#include "BesideFiles.h"

#include <filesystem>

namespace opc::cli {

namespace fs = std::filesystem;

std::string otherThanFile(const std::string &path) {
  std::error_code error;
  switch (fs::status(path, error).type()) {
  case fs::file_type::directory: return "a folder";
  case fs::file_type::fifo: return "a pipe";
  case fs::file_type::socket: return "a socket";
  case fs::file_type::block:
  case fs::file_type::character: return "a device";
  default: return "";
  }
}

Status checkRegular(const std::string &path) {
  const std::string other = otherThanFile(path);
  if (other.empty()) return Status::ok();
  return Status(StatusCode::kUsage, "OPC0706", "cannot read " + path + ": it is " + other + ", and no regular file")
      .withHelp("remove it, or put a file in its place");
}

Result<FileBytes> openBeside(const std::string &path) {
  OPC_RETURN_IF_ERROR(checkRegular(path));
  return FileBytes::open(path);
}

} // namespace opc::cli
