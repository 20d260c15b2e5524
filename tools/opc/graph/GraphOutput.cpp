// A graph or plan that a command writes.
// SPDX-License-Identifier: Apache-2.0
#include "GraphOutput.h"

#include "FileBytes.h"
#include "OpManifest.h"

namespace opc::cli {

Status writeGraphOutput(const std::string &path, const std::string &bytes, const std::string &from) {
  OPC_RETURN_IF_ERROR(writeFileAtomically(path, bytes));
  const std::string manifest = python::findManifest(from), copy = python::manifestBeside(path);
  if (manifest.empty() || manifest == copy) return Status::ok();
  OPC_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::open(manifest));
  return writeFileAtomically(copy, file.view());
}

} // namespace opc::cli
